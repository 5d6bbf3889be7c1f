/** A model in a process of its own, without the service around it. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { CLOCK } from '../../../lib/compose/clock.ts';
import { openPooledOnnx } from '../../../lib/compose/onnx-pool.ts';
import type { Inputs } from '../../../lib/contract/values.ts';
import { ENDLESS, loopModel, QUICK } from '../../support/endless.ts';
import { temporaryFolder } from '../../support/runner.ts';

/** A record of this many steps takes about 0.2 s. */
const SLOW = 200_000;

const record = (rounds: number): Inputs => new Map([['rounds', { kind: 'json', value: rounds }]]);

async function open(t: TestContext) {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, loopModel());
  const settings = { threads: 1, batchSize: 4, inputAlreadyBatched: false, image: {} };
  const ends: string[] = [];
  const batches: number[] = [];
  const onnx = await openPooledOnnx(file, 'v', settings, {
    processes: 1,
    limitMs: 600_000,
    clock: CLOCK,
    onCrash: (reason) => ends.push(reason),
    runEnded: ({ records }) => batches.push(records),
  });
  t.after(() => onnx.close());
  return { onnx, ends, batches };
}

test('a request whose time is over stops between two runs, and its process serves the next one', async (t) => {
  const { onnx, ends } = await open(t);
  let runs = false;
  const policy = { failFast: true, isOver: () => runs };
  const late = onnx.run(
    Array.from({ length: 1_000 }, () => record(SLOW)),
    policy,
  );
  // The batch starts when the event loop has read what has arrived.
  await setImmediate();
  runs = true;
  await assert.rejects(late, { code: 'timeout' });
  const [next] = await onnx.run([record(QUICK)], { failFast: true, isOver: () => false });
  assert.equal(next?.ok && next.outputs[0]?.data[0], QUICK);
  assert.deepEqual(ends, []);
});

test('each batch that ran is reported', async (t) => {
  const { onnx, batches } = await open(t);
  await onnx.run([record(QUICK)], { failFast: true });
  await onnx.run([record(QUICK), record(QUICK), record(QUICK)], { failFast: true });
  assert.deepEqual(batches, [1, 3]);
});

test('requests whose process ended under them run once more, each alone, and a single one says how it ended', async (t) => {
  const { onnx, ends, batches } = await open(t);
  const end = async () => {
    await setImmediate();
    onnx.pool.endBusy('for a test');
  };
  const both = onnx.run([record(SLOW), record(SLOW + 1)], { failFast: true });
  await end();
  const values = (await both).map((outcome) => outcome.ok && outcome.outputs[0]?.data[0]);
  assert.deepEqual(
    [values, batches],
    [
      [SLOW, SLOW + 1],
      [1, 1],
    ],
  );
  const single = onnx.run([record(ENDLESS)], { failFast: true });
  await end();
  await assert.rejects(single, {
    name: 'ServingError',
    code: 'model_failed',
    message: 'the model ended its process (for a test)',
  });
  assert.deepEqual(ends, ['for a test', 'for a test']);
});
