/**
 * A canary of half the records on a running service: both versions answer, by each protocol, and each answer is that of the
 * version that it names. One model adds 10,000 to x, the other 20,000.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { status as grpcStatus } from '@grpc/grpc-js';
import { modelPrefix } from '../../lib/contract/names.ts';
import { isOfCanary } from '../../lib/inference/canary-share.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { connect, inferMessage } from '../local/grpc/client.ts';
import { addModel, modelFolder, numberOf, STEP } from '../local/swap/models.ts';
import { bytes } from '../onnx-import/support/protobuf.ts';
import type { Hooks } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const JOB = 'serving_stream';
const SHARE = 0.5;
const TENSOR = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] };
const KEYS = Array.from({ length: 16 }, (_, i) => `user-${i}`);

interface Answered {
  readonly version: string;
  readonly y: number;
}

/** Sends x = 1 under a key. */
type Ask = (key: string | undefined, version?: string) => Promise<Answered>;

interface Running {
  readonly stack: Stack;
  readonly serving: string;
  readonly canary: string;
}

async function running(t: Hooks): Promise<Running> {
  const modelDirectory = await modelFolder(t, addModel(1));
  const stack = await testStack(t, {
    config: 'modelRefreshSeconds: 1\ncapture:\n  share: 100%\n',
    modelDirectory,
    hasGrpc: true,
  });
  const location = { bucket: stack.bucket, prefix: modelPrefix(JOB) };
  const folder = await modelFolder(t, addModel(2));
  const trial = { kind: 'canary', share: SHARE } as const;
  const { version: canary } = await publishModel(stack.aws.s3, location, folder, { trial });
  const rest = protocols(stack)['POST /v2'] as Ask;
  await until(async () => {
    const answers = await Promise.all(KEYS.map((key) => rest(key)));
    return answers.some(({ version }) => version === canary);
  });
  return { stack, serving: stack.model, canary };
}

async function sent(
  stack: Stack,
  path: string,
  body: unknown,
  key: string | undefined,
): Promise<{ readonly status: number; readonly version: string; readonly json: unknown }> {
  const headers = { 'content-type': 'application/json', ...(key !== undefined && { 'canary-key': key }) };
  const answer = await fetch(stack.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const version = answer.headers.get('model-version') ?? '';
  return { status: answer.status, version, json: await answer.json() };
}

/** The first number of a JSON text that is a sum, wherever it is. */
function sumIn(json: unknown): number {
  const [sum] = JSON.stringify(json).match(/\b[12]0001\b/) ?? [];
  return Number(sum);
}

function protocols(stack: Stack): Readonly<Record<string, Ask>> {
  const instances = { instances: [{ x: [1] }] };
  const over = (path: (version?: string) => string, body: unknown, named?: string): Ask => {
    return async (key, wanted) => {
      const { status, version, json } = await sent(stack, path(wanted), body, key);
      assert.equal(status, 200, JSON.stringify(json));
      if (named !== undefined) assert.equal((json as Record<string, unknown>)[named], version);
      return { version, y: sumIn(json) };
    };
  };
  const ofVersion = (version?: string) => (version === undefined ? '' : `/versions/${version}`);
  return {
    'POST /predict': over(() => '/predict', instances),
    'POST /predict in plain JSON': over(() => '/predict?form=plain', instances, 'model'),
    'POST /invocations': over(() => '/invocations', instances),
    'POST /v2': over((version) => `/v2/models/${JOB}${ofVersion(version)}/infer`, TENSOR, 'model_version'),
    'POST /v1': over((version) => `/v1/models/${JOB}${ofVersion(version)}:predict`, instances),
  };
}

function overGrpc(t: Hooks, stack: Stack): Ask {
  const call = connect(t, stack.grpcPort as number);
  const raw = new Uint8Array(Float32Array.of(1).buffer);
  return async (key, version) => {
    const message = inferMessage(
      JOB,
      [{ datatype: 'FP32', shape: [1, 1], raw }],
      ...(version === undefined ? [] : [bytes(2, version)]),
    );
    const answer = await call(
      'ModelInfer',
      message,
      key === undefined ? {} : { metadata: { 'canary-key': key } },
    );
    // The name of the model comes first, then its version; the bytes of the only number are the last.
    const at = 2 + JOB.length;
    const length = answer[at + 1] as number;
    return {
      version: answer.subarray(at + 2, at + 2 + length).toString(),
      y: answer.readFloatLE(answer.length - 4),
    };
  };
}

function overQueue(t: Hooks, stack: Stack, isOverHttp: boolean): Ask {
  const { input: places, output: place } = clientOptions(stack);
  const input = new InputQueue(isOverHttp ? { frontendUrl: stack.url } : places);
  const output = new OutputQueue(place);
  t.after(async () => {
    await input.close();
    await output.close();
  });
  return async (key, uri = `of-${key}-${isOverHttp}`) => {
    const { identity } = await input.enqueue(uri, { x: [1] }, { canaryKey: key });
    const { model, outputs } = await output.wait(uri, { identity });
    return { version: model, y: Number(outputs[0]?.data[0]) };
  };
}

/** Each line of the captures of a version has its answer. */
async function captured(stack: Stack, numbers: Readonly<Record<string, number>>): Promise<void> {
  const reader = new CaptureReader(stack.aws.s3, stack.bucket, { job: JOB });
  await until(async () => {
    const lines = new Map<string, number>();
    for await (const objects of reader.pages())
      for (const object of objects)
        for await (const line of reader.lines(object)) {
          assert.ok('text' in line);
          // The first says what made them.
          if (line.number === 1) continue;
          assert.equal(sumIn(JSON.parse(line.text)), 1 + STEP * (numbers[object.version] ?? 0), line.text);
          lines.set(object.version, (lines.get(object.version) ?? 0) + 1);
        }
    return [...lines.values()].every((count) => count > 8) && lines.size === 2;
  });
}

describe('a canary of half the records', () => {
  const cleanups: (() => Promise<void>)[] = [];
  let world: Running;
  before(async () => {
    world = await running({ after: (cleanup) => cleanups.push(cleanup) });
  });
  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  test('each answer is that of the version that it names, by every protocol, and one key has one version', async (t) => {
    const { stack, serving, canary } = world;
    const numbers = { [serving]: 1, [canary]: 2 };
    const sideOf = (key: string) => (isOfCanary(key, { version: canary, share: SHARE }) ? canary : serving);
    const asks = {
      ...protocols(stack),
      gRPC: overGrpc(t, stack),
      'the queue': overQueue(t, stack, false),
      'POST /predictions': overQueue(t, stack, true),
    };
    for (const [name, ask] of Object.entries(asks)) {
      const answers = await Promise.all(KEYS.map(async (key) => [key, await ask(key)] as const));
      for (const [key, { version, y }] of answers) {
        assert.equal(version, sideOf(key), `${name}, ${key}`);
        assert.equal(numberOf(1, y), numbers[version], `${name}, ${key}`);
      }
      assert.equal(new Set(answers.map(([, { version }]) => version)).size, 2, name);
    }
    // Without a key each request draws by itself, and a record by its uri.
    for (const ask of [protocols(stack)['POST /predict'], asks.gRPC] as Ask[]) {
      const answers = await Promise.all(Array.from({ length: 40 }, () => ask(undefined)));
      for (const { version, y } of answers) assert.equal(numberOf(1, y), numbers[version]);
      assert.equal(new Set(answers.map(({ version }) => version)).size, 2);
    }
    for (const uri of KEYS) {
      const { version, y } = await asks['the queue'](undefined, uri);
      assert.deepEqual([version, numberOf(1, y)], [sideOf(uri), numbers[version]], uri);
    }
    await captured(stack, numbers);
  });

  test('a request that names a version has its answer from that version, whatever its key, and so have questions about it', async (t) => {
    const { stack, serving, canary } = world;
    const grpc = overGrpc(t, stack);
    const { 'POST /v2': rest, 'POST /v1': serve } = protocols(stack);
    for (const ask of [rest, serve, grpc] as Ask[])
      for (const [version, number] of [
        [serving, 1],
        [canary, 2],
      ] as const)
        for (const key of [undefined, ...KEYS.slice(0, 6)]) {
          const answer = await ask(key, version);
          assert.deepEqual([answer.version, numberOf(1, answer.y)], [version, number]);
        }
    const get = async (path: string) =>
      (await (await fetch(stack.url + path)).json()) as Record<string, unknown>;
    for (const version of [serving, canary]) {
      assert.deepEqual((await get(`/v2/models/${JOB}/versions/${version}`))['versions'], [version]);
      assert.equal((await get(`/v2/models/${JOB}/versions/${version}/ready`))['ready'], true);
    }
    // Without a version it is the one that serves.
    for (let i = 0; i < 8; i++) {
      assert.deepEqual((await get(`/v2/models/${JOB}`))['versions'], [serving]);
      const { json } = await sent(stack, '/v2/repository/index', {}, undefined);
      assert.deepEqual(json, [{ name: JOB, version: serving, state: 'READY', reason: '' }]);
    }
    const call = connect(t, stack.grpcPort as number);
    const named = Buffer.concat([bytes(1, JOB), bytes(2, canary)]);
    assert.ok((await call('ModelMetadata', named)).includes(canary));
    assert.deepEqual([...(await call('ModelReady', named))], [8, 1]);
    assert.equal(
      (await sent(stack, `/v2/models/${JOB}/versions/other/infer`, TENSOR, undefined)).status,
      404,
    );
  });
});

test('a key that is none is refused by each protocol, also without a canary', async (t) => {
  const stack = await testStack(t, { modelDirectory: await modelFolder(t, addModel(1)), hasGrpc: true });
  const paths = [
    '/predict',
    '/predictions',
    '/invocations',
    `/v2/models/${JOB}/infer`,
    `/v1/models/${JOB}:predict`,
  ];
  for (const path of paths)
    for (const key of ['a b', 'x'.repeat(129)]) {
      const { status, json } = await sent(stack, path, { instances: [{ x: [1] }] }, key);
      assert.equal(status, 400, path);
      assert.match(JSON.stringify(json), /canary-key: expected 1 to 128 letters/, path);
    }
  await assert.rejects(overGrpc(t, stack)('a b'), {
    code: grpcStatus.INVALID_ARGUMENT,
    details: /canary-key/,
  });
  assert.equal((await sent(stack, '/predict', { instances: [{ x: [1] }] }, 'user-1')).status, 200);
});
