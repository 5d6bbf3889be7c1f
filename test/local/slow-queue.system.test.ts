/** A full queue of a slow model: on Lambda each event has an environment of its own, here they share one thread. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { InputQueue } from '../../sdk/input-queue.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { loopModel } from '../support/endless.ts';
import { quietLog } from '../support/faults/quiet.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';

const TIMEOUT_SECONDS = 8;
/** Twelve of them at once are more than the time limit of one; one alone has ten times as long, on a machine that is busy. */
const RECORD_MS = 700;
const RECORDS = 12;
const TRIAL_ROUNDS = 200_000;
const TRIALS = 3;

test('the events of a full queue do not spend their time limit waiting for each other', async (t) => {
  const log = quietLog(t);
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), loopModel());
  const stack = await testStack(t, {
    config: `jobName: slow\nqueue: {batchSize: 1, maxReceiveCount: 1}\nfunction: {timeoutSeconds: ${TIMEOUT_SECONDS}}`,
    modelDirectory: folder,
  });
  const { input, output } = clientOptions(stack);
  const queue = new InputQueue({ ...input, name: 'slow' });
  const results = new OutputQueue({ ...output, name: 'slow' });
  t.after(() => Promise.all([queue.close(), results.close()]));

  const spentMs: number[] = [];
  for (let trial = 0; trial < TRIALS; trial++) {
    const startedMs = performance.now();
    await queue.predict({ instances: [{ rounds: TRIAL_ROUNDS }] });
    spentMs.push(performance.now() - startedMs);
  }
  const rounds = Math.ceil((TRIAL_ROUNDS * RECORD_MS) / Math.min(...spentMs));
  const uris = Array.from({ length: RECORDS }, (_, i) => `record-${i}`);
  await queue.enqueueMany(uris.map((uri) => ({ uri, inputs: { rounds } })));
  const outcomes = await Promise.all(uris.map((uri) => results.wait(uri, { timeoutMs: 170_000 })));
  // A record whose event ran out of time comes again, and the log says it.
  assert.deepEqual(
    log.lines.filter((line) => line.includes('"timeout"')),
    [],
  );
  assert.deepEqual(new Set(outcomes.map(({ outputs }) => Number(outputs[0]?.data[0]))), new Set([rounds]));
});
