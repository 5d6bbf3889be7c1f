/** Each model of the shared batching corpus, served: a record is answered alone as in company, over HTTP and by the queue. */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { nestedValues } from '../../../lib/contract/tensor-values.ts';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';

const CORPUS = sharedPath('corpus/batching');
/** Of the value, as the corpus asks for; of the output's range, for values near zero. */
const RELATIVE = 1e-3;
const OF_RANGE = 1e-5;
/** Adds random numbers, so that a record alone has no one answer; runs stay apart. */
const RANDOM = 'noise_submean';

interface Port {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: readonly (number | string)[];
}

interface Case {
  readonly cfg: { readonly inputAlreadyBatched?: boolean };
  readonly records: readonly Readonly<Record<string, Port>>[];
}

/** What one record got: its outputs as shapes and flat values. */
type Answer = readonly { readonly shape: readonly number[]; readonly data: readonly (number | string)[] }[];

/** The corpus writes 64-bit integers as texts. */
function nested({ dtype, shape, data }: Port): unknown {
  const tensor: Tensor = { dtype: 'string', shape, data: data.map(String) };
  return nestedValues(tensor, (text) => (dtype === 'string' ? text : Number(text)));
}

function assertSame(got: Answer, alone: Answer, where: string): void {
  assert.deepEqual(
    got.map(({ shape }) => shape),
    alone.map(({ shape }) => shape),
    where,
  );
  for (const [i, { data }] of alone.entries()) {
    const numbers = data.filter((value) => typeof value === 'number');
    const range = Math.max(0, ...numbers) - Math.min(0, ...numbers);
    for (const [at, expected] of data.entries()) {
      const value = got[i]?.data[at];
      if (value === expected) continue;
      const isNear =
        typeof value === 'number' &&
        typeof expected === 'number' &&
        Math.abs(value - expected) <= RELATIVE * Math.abs(expected) + OF_RANGE * range;
      assert.ok(isNear, `${where}: element ${at} of output ${i} is ${value}, alone ${expected}`);
    }
  }
}

async function served(t: TestContext, name: string, { cfg, records }: Case) {
  const modelDirectory = await temporaryFolder(t);
  copyFileSync(join(CORPUS, `${name}.onnx`), join(modelDirectory, 'model.onnx'));
  const settings = Object.entries({ ...cfg, batchSize: records.length }).map(
    ([key, value]) => `${key}: ${value}`,
  );
  const config = [...settings, `queue: {batchSize: ${records.length}, windowSeconds: 1}`].join('\n');
  const stack = await testStack(t, { modelDirectory, config });
  const options = clientOptions(stack);
  const [input, output] = [new InputQueue(options.input), new OutputQueue(options.output)];
  t.after(() => Promise.all([input.close(), output.close()]));
  const instances = records.map((record) =>
    Object.fromEntries(Object.entries(record).map(([key, port]) => [key, nested(port)])),
  );
  return {
    verification: stack.verification,
    /** By POST /predict, all records in one request. */
    async predict(order: readonly number[]): Promise<Answer[]> {
      const predictions = await input.predict({ instances: order.map((i) => instances[i] as object) });
      return predictions.map(
        (text) => [JSON.parse(text.slice('{value='.length, -1)) as Answer].flat() as Answer,
      );
    },
    /** By the queue, all records in one event. */
    async enqueue(order: readonly number[], round: string): Promise<Answer[]> {
      const uris = order.map((i) => `${round}-${i}`);
      await input.enqueueMany(
        order.map((i, at) => ({
          uri: uris[at] as string,
          inputs: Object.fromEntries(
            Object.entries(records[i] as Case['records'][number]).map(([key, { dtype, shape, data }]) => [
              key,
              {
                dtype,
                shape,
                data: dtype === 'int64' ? BigInt64Array.from(data, (value) => BigInt(value)) : data,
              },
            ]),
          ) as never,
        })),
      );
      const results = await Promise.all(uris.map((uri) => output.wait(uri, { timeoutMs: 30_000 })));
      return results.map(({ outputs }) =>
        outputs.map(({ shape, data }) => ({
          shape,
          data: Array.from(data as ArrayLike<number | bigint | string>, (value) =>
            typeof value === 'bigint' ? Number(value) : value,
          ),
        })),
      );
    },
  };
}

const names = existsSync(CORPUS)
  ? readdirSync(CORPUS)
      .filter((file) => file.endsWith('.onnx'))
      .map((file) => file.slice(0, -'.onnx'.length))
  : [];

test('the corpus of models whose rows may influence each other is there', (t) => {
  if (names.length === 0) return t.skip('needs ../shared/corpus/batching, which is not on this machine');
  assert.ok(names.length >= 44);
});

test('a model with random numbers runs its records apart', async (t) => {
  if (names.length === 0) return t.skip('needs ../shared/corpus/batching, which is not on this machine');
  const given = JSON.parse(readFileSync(join(CORPUS, `${RANDOM}.json`), 'utf8')) as Case;
  const { verification } = await served(t, RANDOM, given);
  assert.equal(verification?.batching.verdict, 'not proven');
});

for (const name of names.filter((each) => each !== RANDOM)) {
  test(`${name} answers each record alone as in company, over HTTP and by the queue`, async (t) => {
    const given = JSON.parse(readFileSync(join(CORPUS, `${name}.json`), 'utf8')) as Case;
    const service = await served(t, name, given);
    const order = given.records.map((_, i) => i);
    const alone: Answer[] = [];
    for (const i of order) alone.push((await service.predict([i]))[0] as Answer);
    for (const [round, places] of [
      ['in order', order],
      ['backwards', order.toReversed()],
    ] as const) {
      for (const [path, answers] of [
        ['/predict', await service.predict(places)],
        ['the queue', await service.enqueue(places, round)],
      ] as const) {
        for (const [at, i] of places.entries()) {
          assertSame(answers[at] as Answer, alone[i] as Answer, `record ${i} ${round} through ${path}`);
        }
      }
    }
  });
}
