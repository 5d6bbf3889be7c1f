/** Real models of the shared corpus through both handlers, compared with their reference outputs. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { predict } from '../../functions/predict.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { type OnnxRunner, openOnnx } from '../../lib/compose/onnx.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, Model } from '../../lib/contract/values.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { ResultStore } from '../../lib/redis/results.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { type LocalRedis, startRedis } from '../../local/redis/start.ts';
import { sharedPath } from '../support/fixtures.ts';
import { readNpy, toNested } from '../support/npy.ts';
import { timersTo } from '../support/observers.ts';

const CORPUS = sharedPath('corpus/onnx');
const SETTINGS = { threads: 2, batchSize: 8, inputAlreadyBatched: false, image: {} };

interface Manifest {
  readonly name: string;
  readonly inputs: readonly { readonly file?: string; readonly name?: string; readonly shape?: number[] }[];
  readonly outputs: readonly { readonly file: string }[];
  readonly tolerance: { readonly atol: number; readonly rtol: number };
  readonly ort_1_30_loads: boolean;
}

let folder: string;
let redis: LocalRedis;
let results: ResultStore;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cs-corpus-'));
  redis = await startRedis({ dataDir: folder, port: 0, log: () => undefined });
  results = new ResultStore(new RedisConnection(redis.url), {
    job: 'corpus',
    ttlSeconds: 600,
    now: Date.now,
  });
});

after(async () => {
  await results.close();
  await redis.close();
  await rm(folder, { recursive: true, force: true });
});

async function inputsOf(manifest: Manifest, runner: OnnxRunner): Promise<Map<string, Tensor>> {
  const inputs = new Map<string, Tensor>();
  for (const [i, { file, name, shape }] of manifest.inputs.entries()) {
    const tensor = file
      ? readNpy(await readFile(join(CORPUS, manifest.name, file)))
      : ramp(shape as number[]);
    inputs.set(name ?? (runner.inputs[i]?.name as string), tensor);
  }
  return inputs;
}

/** float32 arange(n)/n, as the manifest says. */
function ramp(shape: number[]): Tensor {
  const count = shape.reduce((product, dim) => product * dim, 1);
  return { dtype: 'float32', shape, data: Float32Array.from({ length: count }, (_, i) => i / count) };
}

function assertClose(
  actual: ArrayLike<number | bigint | string>,
  expected: Tensor,
  { atol, rtol }: Manifest['tolerance'],
  what: string,
) {
  assert.equal(actual.length, expected.data.length, what);
  for (let i = 0; i < expected.data.length; i++) {
    const want = Number(expected.data[i]);
    const got = Number(actual[i]);
    assert.ok(
      Math.abs(got - want) <= atol + rtol * Math.abs(want),
      `${what}[${i}]: got ${got}, expected ${want}`,
    );
  }
}

function deps(runner: OnnxRunner) {
  const { timers, observers } = timersTo(results);
  return {
    model: { use: (work) => work(runner) } satisfies Model,
    filter: undefined,
    now: Date.now,
    observers,
    sink: resultSink(results, { timers }),
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies: readonly string[]) => [...bodies] },
  };
}

async function throughPredict(runner: OnnxRunner, inputs: ReadonlyMap<string, Tensor>) {
  const instance = Object.fromEntries([...inputs].map(([name, tensor]) => [name, toNested(tensor)]));
  const event = {
    rawPath: '/predict',
    headers: {},
    requestContext: { http: { method: 'POST' } },
    body: JSON.stringify({ instances: [instance] }),
    isBase64Encoded: false,
  } as unknown as APIGatewayProxyEventV2;
  const response = await predict(deps(runner))(event);
  assert.equal(response.statusCode, 200, response.body);
  const [prediction] = (JSON.parse(response.body as string) as { predictions: [string] }).predictions;
  const answer = JSON.parse(prediction.slice('{value='.length, -1)) as { data: number[]; shape: number[] };
  return [answer].flat()[0] as { data: number[]; shape: number[] };
}

async function throughQueue(runner: OnnxRunner, uri: string, inputs: ReadonlyMap<string, Tensor>) {
  const record: Inputs = new Map([...inputs].map(([name, tensor]) => [name, { kind: 'tensor', tensor }]));
  const event = {
    Records: [{ messageId: 'm', body: encodeMessage(uri, record), attributes: { SentTimestamp: '0' } }],
  } as unknown as SQSEvent;
  assert.deepEqual(await serveEvent(deps(runner))(event), { batchItemFailures: [] });
  const result = await results.get(uri);
  assert.ok(result);
  return result.outputs[0] as Tensor;
}

const names = existsSync(CORPUS) ? readdirSync(CORPUS).sort() : [];

test('the shared corpus is here', (t) => {
  if (names.length === 0) t.skip('needs ../shared/corpus/onnx, which is not on this machine');
  else assert.ok(names.length >= 20);
});

for (const name of names) {
  const manifest = JSON.parse(readFileSync(join(CORPUS, name, 'manifest.json'), 'utf8')) as Manifest;
  const file = join(CORPUS, name, 'model.onnx');

  if (!manifest.ort_1_30_loads) {
    test(`${name} is refused with the reason`, async () => {
      await assert.rejects(openOnnx(file, name, SETTINGS), {
        code: 'model_unavailable',
        message: /onnxruntime cannot load the model: .+/,
      });
    });
    continue;
  }
  if (manifest.outputs.length === 0) {
    test(`${name} opens`, async () => {
      const runner = await openOnnx(file, name, SETTINGS);
      assert.ok(runner.inputs.length > 0);
      await runner.close();
    });
    continue;
  }
  // Tested with its batch axes in batch-axes.system.test.ts.
  if (name === 'silero_vad_16k') continue;
  test(`${name} gives its reference output through /predict and through the queue`, async () => {
    const runner = await openOnnx(file, name, SETTINGS);
    try {
      const inputs = await inputsOf(manifest, runner);
      const expected = readNpy(await readFile(join(CORPUS, name, manifest.outputs[0]?.file as string)));
      const direct = await throughPredict(runner, inputs);
      const queued = await throughQueue(runner, name, inputs);
      assertClose(direct.data, expected, manifest.tolerance, `${name} /predict`);
      assert.deepEqual(direct.data.map(Math.fround), [...(queued.data as Float32Array)]);
      assert.deepEqual(direct.shape, queued.shape);
      assert.deepEqual(direct.shape, expected.shape);
    } finally {
      await runner.close();
    }
  });
}
