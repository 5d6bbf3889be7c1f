import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import type { OnnxSettings } from '../../../lib/inference/runner.ts';
import { Scratch, withScratch } from '../../../lib/pipeline/batch/buffer-pool.ts';
import { infer } from '../../../lib/pipeline/infer.ts';
import { type RunRecords, runMessages } from '../../../lib/pipeline/serve.ts';
import { enqueued } from '../../support/enqueue.ts';
import { type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { openModelBytes } from '../../support/runner.ts';

const LENGTH = 1_000;
const x = { name: 'x', dtype: 'float32', shape: ['N', LENGTH] } as const;
const y = { name: 'y', dtype: 'float32', shape: ['N', LENGTH] } as const;
const MODELS: Readonly<Record<string, ModelSpec>> = {
  identity: { inputs: [x], outputs: [y], nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }] },
  'an output that is the input': { inputs: [x], outputs: [x], nodes: [] },
  flatten: { inputs: [x], outputs: [y], nodes: [{ op: 'Flatten', inputs: ['x'], outputs: ['y'] }] },
};

function message(uri: string, value: number, length = LENGTH) {
  const tensor: Tensor = { dtype: 'float32', shape: [length], data: new Float32Array(length).fill(value) };
  return {
    id: uri,
    enqueue: enqueued('e'),
    attempts: 1,
    body: encodeMessage(uri, new Map([['x', { kind: 'tensor', tensor }]])),
  };
}

async function runOf(t: TestContext, spec: ModelSpec, settings?: Partial<OnnxSettings>): Promise<RunRecords> {
  const runner = await openModelBytes(t, onnxModel(spec), settings);
  return (records) => runner.run(records);
}

/** The value that fills the first output of each record. */
function valuesOf(finished: readonly { readonly outcome: Outcome }[]): number[] {
  return finished.map(({ outcome }) => {
    assert.ok(outcome.ok);
    const data = outcome.outputs[0]?.data as Float32Array;
    assert.ok(data.every((value) => value === data[0]));
    return data[0] as number;
  });
}

const echo: RunRecords = async (records) =>
  records.map((inputs): Outcome => {
    const value = inputs.get('x');
    assert.ok(value?.kind === 'tensor');
    return { ok: true, outputs: [{ name: 'y', ...value.tensor }] };
  });

for (const [name, spec] of Object.entries(MODELS)) {
  test(`${name}: what an event gave stays unchanged when the next one uses its memory`, async (t) => {
    const run = await runOf(t, spec);
    const events = [];
    for (let event = 0; event < 4; event++) {
      const rows = event === 3 ? 1 : 3;
      const messages = Array.from({ length: rows }, (_, row) => message(`${event}-${row}`, event * 10 + row));
      events.push((await runMessages(messages, run)).finished);
    }
    assert.deepEqual(events.map(valuesOf), [[0, 1, 2], [10, 11, 12], [20, 21, 22], [30]]);
  });
}

test('a runner that gives back what it was given gives it to keep', async () => {
  const events = [];
  for (let event = 0; event < 4; event++) {
    events.push((await runMessages([message('a', event), message('b', -event)], echo)).finished);
  }
  assert.deepEqual(events.map(valuesOf), [
    [0, -0],
    [1, -1],
    [2, -2],
    [3, -3],
  ]);
});

test('events that run at once do not write over each other', async (t) => {
  const run = await runOf(t, MODELS['identity'] as ModelSpec);
  const slow: RunRecords = async (records: readonly Inputs[]) => {
    await new Promise((resolve) => setImmediate(resolve));
    return run(records);
  };
  for (let round = 0; round < 3; round++) {
    const ran = await Promise.all(
      Array.from({ length: 8 }, (_, event) => {
        return runMessages([message('a', event), message('b', event + 0.5)], slow);
      }),
    );
    assert.deepEqual(
      ran.map(({ finished }) => valuesOf(finished)),
      Array.from({ length: 8 }, (_, event) => [event, event + 0.5]),
    );
  }
});

test('rows that fill up a fixed batch are zeros, also in used memory', async () => {
  const spec = { name: 'x', dtype: 'float32', shape: [4, LENGTH] } as const;
  const settings = { maxRows: 4, maxBytes: 1e9, fixedRows: 4, separable: true, inputAlreadyBatched: false };
  const fed: number[][] = [];
  const run: RunRecords = (records) =>
    infer(records, [spec], { ...settings, image: {} }, async ([feed]) => {
      const data = feed?.data as Float32Array;
      fed.push(
        Array.from({ length: 4 }, (_, row) => data.subarray(row * LENGTH, (row + 1) * LENGTH)).map(sum),
      );
      return [{ name: 'y', dtype: 'float32', shape: [4, 1], data: new Float32Array(4) }];
    });
  for (let round = 0; round < 3; round++) {
    const full = Array.from({ length: 4 }, (_, row) => message(`full-${row}`, row + 1));
    await runMessages(full, run);
    await runMessages([message('alone', 5)], run);
  }
  const once = [
    [1, 2, 3, 4],
    [5, 0, 0, 0],
  ];
  assert.deepEqual(
    fed.map((rows) => rows.map((value) => value / LENGTH)),
    [...once, ...once, ...once],
  );
});

const sum = (values: Float32Array) => values.reduce((total, value) => total + value, 0);

test('what is too large to be kept is taken fresh, and is whole', async () => {
  const length = 5 * 1024 * 1024;
  for (let event = 0; event < 2; event++) {
    const { finished } = await runMessages([message('a', event, length), message('b', 7)], echo);
    assert.deepEqual(valuesOf(finished), [event, 7]);
  }
});

test('memory is used again when the work it was for has ended, and never while it continues', async () => {
  const bytes = 100_000;
  const use = () =>
    withScratch(async (scratch) => [scratch.take(bytes), scratch.take(1), scratch.take(bytes)]);
  await use();
  const [a, b, c] = await use();
  const [again] = await use();
  assert.ok(a && b && c && again);
  assert.equal(again.buffer, a.buffer);
  assert.equal(again.byteOffset, a.byteOffset);
  for (const part of [a, b, c]) assert.equal(part.byteOffset % 64, 0);
  assert.ok(b.byteOffset >= a.byteOffset + bytes && c.byteOffset > b.byteOffset);
  await withScratch(async (outer) => {
    const held = outer.take(bytes);
    const inner = await use();
    assert.ok(inner.every((part) => part.buffer !== held.buffer));
  });
});

test('a failure gives the memory back', async () => {
  let first: Buffer | undefined;
  const fail = () =>
    withScratch(async (scratch) => {
      first = scratch.take(50_000);
      throw new Error('no');
    });
  await assert.rejects(fail, /no/);
  await assert.rejects(fail, /no/);
  const held = first;
  await assert.rejects(fail, /no/);
  assert.equal(first?.buffer, held?.buffer);
});

test('no more than 16 MiB of a scratch are kept for the next borrower', () => {
  const scratch = new Scratch();
  const MiB = 1_048_576;
  for (const bytes of [16 * MiB, 16 * MiB + 1]) {
    scratch.take(bytes);
    scratch.clear();
  }
  assert.equal(scratch.owns(scratch.take(16 * MiB)), true);
  scratch.clear();
  assert.equal(scratch.owns(scratch.take(16 * MiB + 1)), false);
});
