/**
 * The archives under the runtime client that AWS itself runs, aws-lambda-ric. It compiles C++ when it is installed
 * (autoconf, automake, libtool, cmake, make and a compiler; about 3 minutes), so it is not a dependency of ours:
 *
 *   npm install --prefix /tmp/ric aws-lambda-ric@4.0.2
 *   AWS_LAMBDA_RIC=/tmp/ric/node_modules/aws-lambda-ric node --test test/infra/ric.long.test.ts
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readLine } from '../../lib/codecs/capture/read.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { ENDLESS, loopModel, QUICK } from '../support/endless.ts';
import { type Packaged, packageProject } from '../support/packaging.ts';
import { type Answer, type RuntimeEnvironment, startRuntime } from '../support/runtime-api.ts';
import { BUCKET, type Prepared, prepareDeployment } from './deployed.ts';

const CLIENT = process.env['AWS_LAMBDA_RIC'];
const SKIP =
  CLIENT !== undefined && existsSync(join(CLIENT, 'index.mjs'))
    ? false
    : 'no aws-lambda-ric at AWS_LAMBDA_RIC; how to install it stands above';
const SAMPLE = fileURLToPath(new URL('../../examples/digits/', import.meta.url));
const JOB = 'serving_stream';
const EMPTY_BUCKET = 'bucket-without-a-model';
const LOOP_BUCKET = 'bucket-with-an-endless-model';
const TIMEOUT_MS = 30_000;
const COLD_STARTS = 5;
/** The answer of each function to its event below; undefined: nothing comes back. */
const STATUS: Readonly<Record<string, number>> = { predict: 200, predictions: 404, submit: 202, status: 200 };

describe('the archives under the runtime client of AWS', { skip: SKIP }, () => {
  const closers: (() => Promise<unknown>)[] = [];
  let packaged: Packaged;
  let deployment: Prepared;
  let image: string;

  before(async () => {
    packaged = await packageProject();
    assert.equal(packaged.exitCode, 0, packaged.output);
    closers.push(() => packaged.remove());
    deployment = await prepareDeployment(
      packaged,
      async (aws) => {
        await publishModel(aws.s3, { bucket: BUCKET, prefix: modelPrefix(JOB) }, `${SAMPLE}model`);
        await aws.createBucket(EMPTY_BUCKET);
        await aws.createBucket(LOOP_BUCKET);
        const folder = join(packaged.folder, 'loop');
        await mkdir(folder);
        await writeFile(join(folder, 'model.onnx'), loopModel());
        await publishModel(aws.s3, { bucket: LOOP_BUCKET, prefix: modelPrefix(JOB) }, folder);
      },
      (close) => closers.push(close),
    );
    image = (await readFile(`${SAMPLE}images/digit-7.png`)).toString('base64');
  });
  after(async () => {
    for (const close of closers.reverse()) await close();
  });

  /** A cold environment. `variables` replace the template's; undefined takes one away. */
  const start = async (
    t: TestContext,
    name: string,
    variables: Readonly<Record<string, string | undefined>> = {},
  ): Promise<RuntimeEnvironment> => {
    const found = deployment.functions.find((unpacked) => unpacked.name === name);
    assert.ok(found, name);
    const changed = Object.entries({ ...found.environment, ...variables });
    const environment = Object.fromEntries(
      changed.filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    // A new environment has none of another's downloads.
    const temp = join(found.folder, '..', `tmp-${closers.length}-${performance.now()}`);
    await mkdir(temp);
    const runtime = await startRuntime({
      client: CLIENT as string,
      folder: found.folder,
      handler: found.handler,
      environment: { ...environment, TMPDIR: temp, HOME: temp },
    });
    t.after(async () => {
      await runtime.close();
      await rm(temp, { recursive: true, force: true });
    });
    return runtime;
  };

  const http = (method: string, path: string, body?: unknown) => ({
    version: '2.0',
    rawPath: path,
    pathParameters: path.startsWith('/predictions/') ? { uri: path.slice('/predictions/'.length) } : {},
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    requestContext: { http: { method, path } },
    body: body === undefined ? undefined : JSON.stringify(body),
    isBase64Encoded: false,
  });
  const predictEvent = () => http('POST', '/predict', { instances: [{ image }] });
  const message = (id: string, body: string, attempts = 1) => ({
    messageId: id,
    body,
    attributes: { SentTimestamp: String(Date.now()), ApproximateReceiveCount: String(attempts) },
  });
  const record = (uri: string) =>
    JSON.stringify({ uri, data: JSON.stringify({ instances: [{ image }] }), serde: 'stream' });
  const rounds = (uri: string, count: number) =>
    encodeMessage(
      uri,
      new Map([
        [
          'rounds',
          { kind: 'tensor', tensor: { dtype: 'float64', shape: [], data: Float64Array.of(count) } } as const,
        ],
      ]),
    );

  const EVENTS = {
    batch: () => ({ Records: [message('m', record('cold'))] }),
    predict: predictEvent,
    predictions: () => http('GET', '/predictions/nobody'),
    submit: () => http('POST', '/predictions', { instances: [{ image }] }),
    status: () => http('GET', '/ready'),
    'dead-letter': () => ({ Records: [message('dead', record('dead'))] }),
  };

  test('an environment that is frozen between requests captures all but its last 64, and those of before a minute', async (t) => {
    const job = 'captured';
    const found = deployment.functions.find(({ name }) => name === 'predict');
    const settings = JSON.parse(found?.environment['CLUSTER_SERVING_CONFIG'] ?? '{}') as object;
    const capture = { share: 1, include: ['*'], leaveOut: [], days: 30, failures: true };
    await publishModel(deployment.aws.s3, { bucket: BUCKET, prefix: modelPrefix(job) }, `${SAMPLE}model`);
    const runtime = await start(t, 'predict', {
      CLUSTER_SERVING_CONFIG: JSON.stringify({ ...settings, jobName: job, capture }),
    });
    const captures = new CaptureReader(deployment.aws.s3, BUCKET, { job });
    const idsOf = async () => {
      const ids: string[] = [];
      for await (const page of captures.pages())
        for (const object of page)
          for await (const line of captures.lines(object)) {
            assert.ok('text' in line, JSON.stringify(line));
            if (line.number > 1) ids.push(readLine(line.text).id);
          }
      return ids;
    };
    const ask = async (count: number) => {
      for (let i = 0; i < count; i++) {
        process.kill(runtime.pid, 'SIGCONT');
        assertAnswered('predict', await runtime.invoke(predictEvent(), TIMEOUT_MS));
        // As Lambda does once the client asks for its next event.
        process.kill(runtime.pid, 'SIGSTOP');
      }
    };
    await ask(300);
    const early = await idsOf();
    assert.equal(new Set(early).size, early.length);
    assert.ok(early.length >= 300 - 64, `${early.length} of 300`);
    await delay(61_000);
    await ask(2);
    const late = new Set(await idsOf());
    // The first ones come before the slot of captures is filled.
    const missing = Array.from({ length: 300 }, (_, i) => `request-${i + 1}`).filter((id) => !late.has(id));
    assert.ok(missing.length <= 1, missing.join());
  });

  for (const [name, event] of Object.entries(EVENTS)) {
    test(`${name} answers its first event and the next ones, and says in its metrics which was the cold one`, async (t) => {
      const coldMs: number[] = [];
      let warmMs: number[] = [];
      for (let i = 0; i < COLD_STARTS; i++) {
        const runtime = await start(t, name);
        assertAnswered(name, await runtime.invoke(event(), TIMEOUT_MS));
        coldMs.push(performance.now() - runtime.spawnedAt);
        warmMs = [];
        for (let again = 0; again < COLD_STARTS; again++) {
          const begin = performance.now();
          assertAnswered(name, await runtime.invoke(event(), TIMEOUT_MS));
          warmMs.push(performance.now() - begin);
        }
        const lines = runtime.output().split('\n');
        const metrics = lines.filter((line) => line.includes('"_aws"'));
        assert.equal(metrics.filter((line) => line.includes('"ColdStarts"')).length, 1, runtime.output());
        assert.ok(metrics.every((line) => line.includes('1-5759e988-bd862e3fe1be46a994272793')));
        await runtime.close();
      }
      t.diagnostic(
        `${name}: spawn to first answer ${median(coldMs)} ms (median of ${coldMs.length}), warm ${median(warmMs)} ms`,
      );
    });
  }

  test('of a batch with a message that is not a record, that message alone comes back', async (t) => {
    const runtime = await start(t, 'batch');
    const event = { Records: [message('good', record('good')), message('bad', 'no record')] };
    const answer = await runtime.invoke(event, TIMEOUT_MS);
    assert.deepEqual(answer, {
      kind: 'response',
      value: { batchItemFailures: [{ itemIdentifier: 'bad' }] },
    });
  });

  test('predict whose model does not come in time answers 504 before Lambda ends it, and stays alive', async (t) => {
    const silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    t.after(() => silent.close());
    const { port } = silent.address() as { port: number };
    const runtime = await start(t, 'predict', {
      AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
      AWS_ENDPOINT_URL_S3: undefined,
    });
    for (let i = 0; i < 2; i++) {
      const answer = await runtime.invoke(predictEvent(), 3_000);
      assert.equal(answer.kind, 'response', runtime.output());
      assert.equal((answer as { value: { statusCode: number } }).value.statusCode, 504);
    }
  });

  test('a run that outlives batch ends with it; delivered again it is isolated, and its neighbour gets its result', async (t) => {
    const variables = { CLUSTER_SERVING_BUCKET: LOOP_BUCKET };
    const records = (attempts: number) => ({
      Records: [
        message('endless', rounds('endless', ENDLESS), attempts),
        message('quick', rounds('quick', QUICK), attempts),
      ],
    });
    const first = await start(t, 'batch', variables);
    assert.deepEqual(await first.invoke(records(1), 3_000), { kind: 'timeout' });
    await first.close();
    const second = await start(t, 'batch', variables);
    assert.deepEqual(await second.invoke(records(2), 12_000), {
      kind: 'response',
      value: { batchItemFailures: [{ itemIdentifier: 'endless' }] },
    });
    const reader = await start(t, 'predictions');
    const answer = await reader.invoke(http('GET', '/predictions/quick'), TIMEOUT_MS);
    assert.equal((answer as { value: { statusCode: number } }).value.statusCode, 200);
  });

  test('an environment that starts without a model answers 503, and 200 as soon as there is one', async (t) => {
    const runtime = await start(t, 'predict', { CLUSTER_SERVING_BUCKET: EMPTY_BUCKET });
    const statusOf = async () =>
      ((await runtime.invoke(predictEvent(), TIMEOUT_MS)) as { value: { statusCode: number } }).value
        .statusCode;
    assert.equal(await statusOf(), 503);
    await publishModel(
      deployment.aws.s3,
      { bucket: EMPTY_BUCKET, prefix: modelPrefix(JOB) },
      `${SAMPLE}model`,
    );
    assert.equal(await statusOf(), 200, runtime.output());
  });

  test('an environment without a variable it needs fails its event, and its log names the variable', async (t) => {
    const runtime = await start(t, 'batch', { CLUSTER_SERVING_REDIS_URL: undefined });
    const answer = await runtime.invoke({ Records: [message('m', record('u'))] }, TIMEOUT_MS);
    assert.equal(answer.kind, 'error', JSON.stringify(answer));
    assert.match(
      runtime.output(),
      /"level":"error","message":"the environment variable CLUSTER_SERVING_REDIS_URL is not set"/,
    );
  });

  test('an archive whose handler is not where the template says ends before its first event', async (t) => {
    const found = deployment.functions.find(({ name }) => name === 'status');
    assert.ok(found);
    const runtime = await startRuntime({
      ...found,
      client: CLIENT as string,
      handler: 'dist/status/other.handler',
    });
    t.after(() => runtime.close());
    assert.equal((await runtime.invoke(http('GET', '/'), TIMEOUT_MS)).kind, 'ended');
  });
});

function assertAnswered(name: string, answer: Answer): void {
  assert.equal(answer.kind, 'response', JSON.stringify(answer));
  const { value } = answer as { value: Record<string, unknown> };
  const status = STATUS[name];
  if (status === undefined) assert.deepEqual(value, { batchItemFailures: [] });
  else assert.equal(value['statusCode'], status, JSON.stringify(value));
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return Math.round((sorted[Math.floor(sorted.length / 2)] as number) * 10) / 10;
}
