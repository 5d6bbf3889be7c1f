/**
 * Tests that every archive of `serverless package` (with all defaults), unzipped and run, keeps the contract.
 * Packaging takes seconds, so these share one run with the tests of the template (test/infra/package.system.test.ts).
 */
import assert from 'node:assert/strict';
import { readFile, stat } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { GetQueueUrlCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { deadLetterPrefix, modelPrefix, payloadPrefix } from '../../lib/contract/names.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { connect } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { smallJpeg } from '../support/jpegs.ts';
import { bytesOf, inferRequest, receivedOf, type SentRequest } from '../support/open-inference.ts';
import type { Packaged } from '../support/packaging.ts';
import { type Picture, picturesOf } from '../support/pictures.ts';
import { SIGNED_REGION, startSignedApi } from '../support/signed-api.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { propertiesOf } from '../support/template.ts';
import { until } from '../support/until.ts';
import { BUCKET, type Deployed, deployLocally, type TableCalls } from './deployed.ts';

const SAMPLE = fileURLToPath(new URL('../../examples/digits/', import.meta.url));
const JOB = 'serving_stream';
const MAX_BYTES = { withRuntime: 20_000_000, without: 250_000 };

/**
 * The tests of a packaged default deployment; `packaged` is asked when they run.
 * @param tableCalls gets the calls of a table
 */
export function archiveTests(packaged: () => Packaged, tableCalls?: TableCalls): void {
  let deployed: Deployed;

  before(async () => {
    deployed = await deployLocally(
      packaged(),
      async ({ s3 }) => {
        await publishModel(s3, { bucket: BUCKET, prefix: modelPrefix(JOB) }, `${SAMPLE}model`);
      },
      undefined,
      tableCalls,
    );
  });
  after(() => deployed?.close());

  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const response = await fetch(deployed.url + path, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json');
    return { status: response.status, body: isJson ? (JSON.parse(text) as Record<string, unknown>) : text };
  };
  const digit = async (number: number) =>
    (await readFile(`${SAMPLE}images/digit-${number}.png`)).toString('base64');

  test('predict and batch are at most 20 MB, the others at most 250 kB', async () => {
    for (const name of deployed.artifacts.keys()) {
      const { size } = await stat(packaged().archive(name));
      const most = ['predict', 'batch'].includes(name) ? MAX_BYTES.withRuntime : MAX_BYTES.without;
      assert.ok(size <= most, `${name}.zip has ${size} bytes, over ${most}`);
    }
  });

  test('POST /predict recognises the ten sample images', async () => {
    const instances = await Promise.all(
      Array.from({ length: 10 }, async (_, n) => ({ image: await digit(n) })),
    );
    const { status, body } = await call('POST', '/predict', { instances });
    assert.equal(status, 200, JSON.stringify(body));
    const { predictions } = body as { predictions: string[] };
    assert.deepEqual(predictions.map(largest), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test('POST /predict decodes a JPEG and a WebP, whose decoders lie beside the bundle, and a JPEG in CMYK', async () => {
    const pictures = ['webp-lossy', 'cmyk'].map((name) => picturesOf(name)[30] as Picture);
    for (const { bytes } of [smallJpeg('baseline420'), ...pictures]) {
      const image = bytes.toString('base64');
      const { status, body } = await call('POST', '/predict', { instances: [{ image }] });
      assert.equal(status, 200, JSON.stringify(body));
    }
  });

  test('the Open Inference Protocol takes a tensor as bytes, and gives what it gives of the same as JSON', async () => {
    const { status, body } = await call('GET', `/v2/models/${JOB}`);
    assert.equal(status, 200, JSON.stringify(body));
    const [{ name, datatype, shape }] = (
      body as { inputs: [{ name: string; datatype: string; shape: number[] }] }
    ).inputs;
    const values = Float32Array.from({ length: 3 * 8 * 8 }, (_, i) => (i * 31) % 256);
    const input = { name, datatype, shape: [1, ...shape.slice(1)] };
    const infer = async (request: SentRequest) => {
      const url = `${deployed.url}/v2/models/${JOB}/infer`;
      const response = await fetch(url, {
        method: 'POST',
        headers: request.headers,
        body: new Uint8Array(request.body),
      });
      const bytes = Buffer.from(await response.arrayBuffer());
      assert.equal(response.status, 200, bytes.toString());
      return receivedOf(bytes, response.headers.get('inference-header-content-length')).outputs[0];
    };
    const asBytes = await infer(
      inferRequest([{ ...input, bytes: bytesOf(values) }], { parameters: { binary_data_output: true } }),
    );
    const asJson = await infer(inferRequest([{ ...input, data: Array.from(values) }]));
    assert.equal(asJson?.data?.length, 10);
    assert.deepEqual(asBytes?.bytes, bytesOf(Float32Array.from(asJson.data as number[])));
  });

  test('a client that knows the name of the stack sends to its queue, and reads the result with signed requests', async (t) => {
    const template = await packaged().template();
    const { aws, bucket } = deployed;
    const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = aws.environment;
    const keys = { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY };
    const api = await startSignedApi(t, { behind: deployed.url, keys });
    const QueueName = String(propertiesOf(template, 'Queue')['QueueName']);
    const { QueueUrl = '' } = await aws.sqs.send(new GetQueueUrlCommand({ QueueName }));
    const places = { HttpApiUrl: api.url, QueueUrl, BucketName: bucket };
    const written = Object.entries(template.Outputs).flatMap(([name, { Value }]) =>
      typeof Value === 'string' ? [[name, Value] as const] : [],
    );
    const stacks = { dev: { outputs: { ...Object.fromEntries(written), ...places } } };
    const standIn = await startStandIn(t, stacks);
    useAws({
      AWS_ACCESS_KEY_ID,
      AWS_SECRET_ACCESS_KEY,
      AWS_REGION: SIGNED_REGION,
      AWS_ENDPOINT_URL_CLOUDFORMATION: standIn.url,
      AWS_ENDPOINT_URL_SQS: aws.url,
    });
    t.after(() => useAws({}));
    const { input, output, places: found, close } = await connect({ stack: 'dev' });
    t.after(close);
    assert.deepEqual([found.auth, found.job], ['iam', JOB]);
    const uri = 'signed/{digit} 7?';
    const image = { b64: await digit(7) };
    const { identity } = await input.enqueue(uri, { image }, { tenant: 'somebody' });
    const { outputs } = await output.wait(uri, { identity });
    const data = Array.from(outputs[0]?.data ?? [], Number);
    assert.equal(data.indexOf(Math.max(...data)), 7);
    assert.ok(await output.queryAndDelete(uri));
    assert.deepEqual(api.refused, []);
  });

  test('a record posted to /predictions is found under its uri, a slash in it included, until it is deleted', async () => {
    const uri = 'folder/a digit';
    const path = `/predictions/${encodeURIComponent(uri)}`;
    const posted = await call('POST', '/predictions', { uri, instances: [{ image: await digit(7) }] });
    const { identity, ...accepted } = posted.body as Record<string, unknown>;
    assert.deepEqual([posted.status, accepted], [202, { uri }]);
    const asked = await call('GET', `${path}?identity=${String(identity)}`, undefined, { prefer: 'wait=20' });
    assert.equal(asked.status, 200, JSON.stringify(asked.body));
    const found = await call('GET', path, undefined, { prefer: 'wait=20' });
    assert.equal(found.status, 200, JSON.stringify(found.body));
    const { status, outputs } = found.body as { status: string; outputs: { data: number[] }[] };
    assert.equal(status, 'succeeded');
    assert.equal(outputs[0]?.data.indexOf(Math.max(...outputs[0].data)), 7);
    assert.equal((await call('DELETE', path)).status, 200);
    assert.equal((await call('GET', path)).status, 404);
  });

  test('each line of a body is a record, which is accepted or refused by itself', async () => {
    const lines = await Promise.all(
      [1, 2].map(async (n) => `{"uri":"line-${n}","instances":[{"image":"${await digit(n)}"}]}`),
    );
    const response = await fetch(`${deployed.url}/predictions`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: [lines[0], '{', lines[1]].join('\n'),
    });
    const { records } = (await response.json()) as { records: { status: number }[] };
    assert.equal(response.status, 207);
    assert.deepEqual(
      records.map(({ status }) => status),
      [202, 400, 202],
    );
    for (const n of [1, 2]) {
      const { body } = await call('GET', `/predictions/line-${n}`, undefined, { prefer: 'wait=20' });
      const { outputs } = body as { outputs: { data: number[] }[] };
      assert.equal(outputs[0]?.data.indexOf(Math.max(...outputs[0].data)), n);
    }
  });

  test('a record over the 1 MiB of a message travels through the bucket', async () => {
    // Bytes after the end of a JPEG do not belong to the picture.
    const image = Buffer.concat([smallJpeg('baseline420').bytes, Buffer.alloc(1024 * 1024)]).toString(
      'base64',
    );
    const posted = await call('POST', '/predictions', { uri: 'large', instances: [{ image }] });
    assert.deepEqual([posted.status, (posted.body as { uri: string }).uri], [202, 'large']);
    const { body } = await call('GET', '/predictions/large', undefined, { prefer: 'wait=20' });
    assert.equal((body as { status: string }).status, 'succeeded', JSON.stringify(body));
    const { Contents = [] } = await deployed.aws.s3.send(
      new ListObjectsV2Command({ Bucket: BUCKET, Prefix: payloadPrefix(JOB) }),
    );
    assert.equal(Contents.length, 1);
  });

  test('a record that was delivered before runs in a process of its own, which lies beside the bundle', async () => {
    const body = JSON.stringify({
      uri: 'again',
      data: JSON.stringify({ instances: [{ image: await digit(6) }] }),
      serde: 'stream',
    });
    const attributes = { SentTimestamp: '0', ApproximateReceiveCount: '2' };
    const event = { Records: [{ messageId: 'm', body, attributes }] };
    assert.deepEqual(await deployed.artifacts.get('batch')?.invoke(event), { batchItemFailures: [] });
    const { status, body: found } = await call('GET', '/predictions/again');
    assert.equal(status, 200);
    const { outputs } = found as { outputs: { data: number[] }[] };
    assert.equal(outputs[0]?.data.indexOf(Math.max(...outputs[0].data)), 6);
  });

  test('POST /predict that prefers not to wait is queued, and of two records of one uri the later one counts', async () => {
    const uri = 'not-waited-for';
    for (const shown of [3, 4]) {
      const body = { uri, instances: [{ image: await digit(shown) }] };
      const posted = await call('POST', '/predict', body, { prefer: 'respond-async' });
      const { identity, ...accepted } = posted.body as Record<string, unknown>;
      assert.deepEqual([posted.status, accepted], [202, { uri }]);
      const path = `/predictions/${uri}?identity=${String(identity)}`;
      const found = await call('GET', path, undefined, { prefer: 'wait=20' });
      const { outputs } = found.body as { outputs: { data: number[] }[] };
      assert.equal(outputs[0]?.data.indexOf(Math.max(...outputs[0].data)), shown);
    }
  });

  test('DELETE /predictions takes all results that are there', async () => {
    const image = await digit(4);
    const body = { uris: ['page-1', 'page-2'], instances: [{ image }, { image }] };
    assert.equal((await call('POST', '/predictions', body)).status, 202);
    const taken = new Set<string>();
    await until(async () => {
      const page = await call('DELETE', '/predictions');
      for (const { uri } of (page.body as { results: { uri: string }[] }).results) taken.add(uri);
      return taken.has('page-1') && taken.has('page-2');
    });
  });

  test('GET / welcomes, /metrics lists timers, /ready names the model', async () => {
    assert.equal((await call('GET', '/')).body, 'welcome to analytics zoo web serving frontend');
    const metrics = (await call('GET', '/metrics')).body as unknown as { name: string }[];
    assert.ok(metrics.some(({ name }) => name === 'zoo.serving.request.predict'));
    const { status, body } = await call('GET', '/ready');
    assert.equal(status, 200);
    assert.match((body as { model: string }).model, /^[0-9a-f]{12}$/);
  });

  test('a dead letter is archived in the bucket and its uri gets a failed result', async () => {
    const message = JSON.stringify({ uri: 'dead', data: 'not base64', serde: 'arrow' });
    const { MessageId } = await deployed.aws.sqs.send(
      new SendMessageCommand({ QueueUrl: deployed.deadLetterUrl, MessageBody: message }),
    );
    const { status, body } = await call('GET', '/predictions/dead', undefined, { prefer: 'wait=20' });
    assert.equal(status, 200);
    assert.equal((body as { code: string }).code, 'max_receives_exceeded');
    const archived = await deployed.aws.s3.send(
      new GetObjectCommand({ Bucket: BUCKET, Key: `${deadLetterPrefix(JOB)}${MessageId}.json` }),
    );
    const { body: kept } = JSON.parse((await archived.Body?.transformToString()) ?? '') as { body: string };
    assert.equal(kept, message);
  });

  test('predict and batch wrote a line of metrics for CloudWatch in each invocation', async () => {
    for (const [name, sort] of [
      ['predict', 'Requests'],
      ['batch', 'BatchSize'],
    ] as const) {
      const lines = metricLines(deployed.artifacts.get(name)?.output() ?? '');
      assert.ok(lines.length > 1, name);
      assert.ok((lines[0]?.['LoadTime'] as number) > 0, name);
      assert.deepEqual(
        lines.map(({ ColdStarts }) => ColdStarts),
        lines.map((_, i) => (i === 0 ? 1 : undefined)),
      );
      assert.ok(lines.some(({ InferenceTime }) => (InferenceTime as number) > 0));
      for (const line of lines) {
        assert.equal(line['Job'], JOB);
        assert.match(String(line['function_request_id']), /^request-/);
        assert.ok((line[sort] as number) >= 1);
      }
    }
  });

  test('the functions reach Redis over TLS', async (t) => {
    if (!deployed.tls) return t.skip('there is no Redis, or no openssl command to make a certificate with');
    assert.equal((await call('GET', '/ready')).status, 200);
    assert.ok(deployed.tls.accepted() > 0);
  });

  test('no function has logged an error so far', () => {
    for (const [name, artifact] of deployed.artifacts) {
      assert.doesNotMatch(artifact.output(), /"level":"error"|ERR_ACCESS_DENIED|Error:/, name);
    }
  });
}

/** Lines in CloudWatch's Embedded Metric Format. */
function metricLines(output: string): Record<string, unknown>[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{"_aws"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Index of the largest value of `{value={"data":[...],"shape":[10]}}`. */
function largest(prediction: string): number {
  const { data } = JSON.parse(prediction.slice('{value='.length, -1)) as { data: number[] };
  return data.indexOf(Math.max(...data));
}
