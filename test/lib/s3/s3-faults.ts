/**
 * F8: faults of S3 for large records, model and dead letters. For each, the errors during the fault are checked, and
 * that everything works afterwards. The cases mostly wait for time limits, so those of one test run in parallel, each
 * behind its own proxy.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { openModel } from '../../../lib/compose/model.ts';
import { deadLetterPrefix, payloadPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { eventOf, sqsRecord } from '../../support/faults/events.ts';
import type { Stored } from '../../support/faults/history.ts';
import { History } from '../../support/faults/history.ts';
import { type Answer, type RequestFate, s3Error, startHttpProxy } from '../../support/faults/http-proxy.ts';
import { lineModel, lineOf, modelFolder, record } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { BUCKET, lineRunner, openDeadLetter, openWorker, startQueue } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';
import { temporaryFolder } from '../../support/runner.ts';

interface S3Fault {
  readonly name: string;
  readonly fate: RequestFate;
}

const says = (status: number, code: string): S3Fault => ({
  name: `${status} ${code}`,
  fate: { kind: 'answer', answer: s3Error(status, code) },
});

const flipped = (answer: Answer): Answer => {
  const body = Buffer.from(answer.body);
  const at = Math.floor(body.length / 2);
  body[at] = (body[at] ?? 0) ^ 0xff;
  return { ...answer, body };
};

const REFUSALS: readonly S3Fault[] = [
  says(404, 'NoSuchKey'),
  says(403, 'AccessDenied'),
  says(500, 'InternalError'),
  says(503, 'SlowDown'),
];
const BREAKS: readonly S3Fault[] = [
  { name: 'reset', fate: { kind: 'reset' } },
  { name: 'answer lost', fate: { kind: 'lose' } },
  { name: 'no answer', fate: { kind: 'stall', share: 0 } },
];
const BODIES: readonly S3Fault[] = [
  { name: 'body cut', fate: { kind: 'cut', share: 0.5 } },
  { name: 'body cut at 99 %', fate: { kind: 'cut', share: 0.99 } },
  { name: 'body stalled at 99 %', fate: { kind: 'stall', share: 0.99 } },
];
const CORRUPT: S3Fault = { name: 'a byte changed', fate: { kind: 'change', answer: flipped } };
const WRONG_ETAG: S3Fault = {
  name: 'wrong ETag',
  fate: {
    kind: 'change',
    answer: (answer) => ({
      ...answer,
      headers: { ...answer.headers, etag: '"00000000000000000000000000000000"' },
    }),
  },
};

const READS: readonly S3Fault[] = [...REFUSALS, ...BREAKS, ...BODIES];

/** What may become of the record while the fault lasts; undefined: its message goes back. */
function storedDuring(fault: S3Fault, x: number): Stored | undefined {
  if (fault.name.startsWith('404')) return 'bad_request';
  // S3 names an ETag and sends a whole body: nothing is wrong with the record.
  if (fault === WRONG_ETAG) return lineOf(x);
  return undefined;
}

export async function claimChecks(t: TestContext): Promise<void> {
  quietLog(t);
  const queue = await startQueue(t);
  const url = await redisUrl(t);
  const runner = await lineRunner(t);
  const cases = [...READS, WRONG_ETAG].map(async (fault, number) => {
    const job = `claim-${number}`;
    const proxy = await startHttpProxy(t, queue.aws.url);
    const worker = await openWorker(t, { redisUrl: url, runner, job, s3Endpoint: proxy.url });
    const history = new History();
    const { Records } = await eventOf([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    const key = `${payloadPrefix(job)}large`;
    const body = encodeMessage('large', await toInputs(record(9)));
    await putText(queue.aws.s3, { bucket: BUCKET, key }, body.padEnd(200_000, ' '));
    const event = { Records: [...Records, sqsRecord('m-large', encodePointer('large', key))] };
    for (let x = 0; x < 9; x++) history.enqueued(`r-${x}`, lineOf(x));
    const told = storedDuring(fault, 9);
    history.enqueued('large', told ?? lineOf(9));

    proxy.onRequest = () => fault.fate;
    const first = await worker(event);
    assert.deepEqual(
      first.batchItemFailures,
      told === undefined ? [{ itemIdentifier: 'm-large' }] : [],
      fault.name,
    );
    proxy.onRequest = () => ({ kind: 'pass' });
    assert.deepEqual((await worker(event)).batchItemFailures, [], fault.name);
    await history.assertClean(url, job, fault.name);
  });
  await Promise.all(cases);
  assert.equal(cases.length, 11);
}

/** Which of a model's requests the fault meets. */
const PARTS = {
  'the pointer': (path: string) => path.includes('current.json'),
  'the file': (path: string) => path.includes('model.onnx'),
} as const;

export async function modelDownloads(t: TestContext): Promise<void> {
  quietLog(t);
  const queue = await startQueue(t);
  const folder = await modelFolder(await temporaryFolder(t), lineModel());
  let cases = 0;
  const one = async (part: keyof typeof PARTS, fault: S3Fault): Promise<void> => {
    const prefix = `models/m${cases++}/`;
    await publishModel(queue.aws.s3, { bucket: BUCKET, prefix }, folder);
    const proxy = await startHttpProxy(t, queue.aws.url);
    const directory = await mkdtemp(join(tmpdir(), 'cs-test-'));
    t.after(() => rm(directory, { recursive: true, force: true }));
    const host = openModel({
      s3: openS3({ endpoint: proxy.url }),
      location: { bucket: BUCKET, prefix },
      directory,
      settings: { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {} },
      refreshMs: 3_600_000,
      now: Date.now,
      onError: () => undefined,
    });
    t.after(() => host.close());
    proxy.onRequest = ({ path }) => (PARTS[part](path) ? fault.fate : { kind: 'pass' });
    const what = `${part}: ${fault.name}`;
    await assert.rejects(host.ready(), { name: 'ServingError', code: 'model_unavailable' }, what);
    // Not half a model is left that the next opening would take for a whole one.
    assert.deepEqual(await readdir(directory).catch(() => []), [], what);
    proxy.onRequest = () => ({ kind: 'pass' });
    const outcomes = await host.use(async (runner) => runner.run([await toInputs(record(3))]));
    assert.equal(outcomes[0]?.ok && outcomes[0].outputs[0]?.data[0], lineOf(3), what);
  };
  await Promise.all([
    ...READS.map((fault) => one('the pointer', fault)),
    ...[...READS, CORRUPT].map((fault) => one('the file', fault)),
  ]);
  await replacedBetweenReads(t, queue.aws.url);
  assert.equal(cases, 21);
}

/** Files copied by hand: the listing names the ETag, and the object is another one when it is read. */
async function replacedBetweenReads(t: TestContext, endpoint: string): Promise<void> {
  const s3 = openS3({ endpoint });
  const prefix = 'models/copied/';
  const put = (body: Uint8Array) =>
    s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: `${prefix}model.onnx`, Body: body }));
  await put(lineModel());
  const proxy = await startHttpProxy(t, endpoint);
  const directory = await temporaryFolder(t);
  const host = openModel({
    s3: openS3({ endpoint: proxy.url }),
    location: { bucket: BUCKET, prefix },
    directory,
    settings: { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {} },
    refreshMs: 3_600_000,
    now: Date.now,
    onError: () => undefined,
  });
  t.after(() => host.close());
  // Between the listing and the read somebody puts another file of the same size there.
  proxy.onRequest = ({ path }) =>
    path.includes('list-type')
      ? { kind: 'pass' }
      : {
          kind: 'change',
          request: async ({ body }) => {
            await put(flipped({ status: 200, headers: {}, body: Buffer.from(lineModel()) }).body);
            return body;
          },
        };
  await assert.rejects(host.ready(), { code: 'model_unavailable' });
  proxy.onRequest = () => ({ kind: 'pass' });
  await put(lineModel());
  await host.ready();
}

export async function deadLetters(t: TestContext): Promise<void> {
  quietLog(t);
  const queue = await startQueue(t);
  const url = await redisUrl(t);
  const faults = [...REFUSALS, ...BREAKS];
  await Promise.all(
    faults.map(async (fault, number) => {
      const job = `dead-letters-${number}`;
      const proxy = await startHttpProxy(t, queue.aws.url);
      const handler = openDeadLetter(t, { redisUrl: url, job, s3Endpoint: proxy.url });
      const history = new History();
      await history.listen(t, url, job);
      history.enqueued('r-0', 'max_receives_exceeded');
      const event = await eventOf([0]);
      proxy.onRequest = () => fault.fate;
      assert.deepEqual(await handler(event), { batchItemFailures: [{ itemIdentifier: 'm-0' }] }, fault.name);
      proxy.onRequest = () => ({ kind: 'pass' });
      assert.deepEqual(await handler(event), { batchItemFailures: [] }, fault.name);
      const Key = `${deadLetterPrefix(job)}m-0.json`;
      const archived = await queue.aws.s3.send(new GetObjectCommand({ Bucket: BUCKET, Key }));
      const { body } = JSON.parse((await archived.Body?.transformToString()) ?? '') as { body: string };
      assert.equal(body, event.Records[0]?.body);
      await history.assertClean(url, job, fault.name);
    }),
  );
}
