/** What a process of a worker may say and when, with one that plays back what a test has written down. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  encodeMessage,
  type FromWorker,
  type Hello,
  type Ready,
  type RunResult,
  type StartFailed,
  type ToWorker,
} from '../../../lib/workers/messages.ts';
import { WorkerEnded, WorkerProcess, WorkerStartError } from '../../../lib/workers/process.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { openMessage } from './child.ts';

const HELLO: Hello = { type: 'hello', protocol: 1, language: 'python', runtime: '3.14', version: '1.2.3' };
const READY: Ready = { type: 'ready', retryAlone: true, imageAs: 'bytes' };
const NO_LICENCE: StartFailed = {
  type: 'failed',
  phase: 'get_model',
  error: { type: 'OSError', message: 'no licence', traceback: 'Traceback' },
};
const OPEN = openMessage('/nowhere');
const result = (id: number, ...values: unknown[]): RunResult => ({
  type: 'result',
  id,
  outcomes: values.map((value) => ({ value })),
  statistics: {},
});
const run = (id: number, ...items: unknown[]): ToWorker => ({ type: 'run', id, items });
const bytesOf = (message: ToWorker | FromWorker) => Buffer.concat(encodeMessage(message));

/** @param play what the process does: it says what comes from a worker, and waits for what goes to one */
async function played(
  t: TestContext,
  play: readonly (ToWorker | FromWorker)[],
  end = 'exec cat <&3 >/dev/null',
) {
  const folder = await temporaryFolder(t);
  const steps = await Promise.all(
    play.map(async (message, i) => {
      const bytes = bytesOf(message);
      if (['open', 'run', 'retire'].includes(message.type)) return `head -c ${bytes.length} <&3 >/dev/null`;
      await writeFile(join(folder, String(i)), bytes);
      return `cat ${i} >&4`;
    }),
  );
  const worker = new WorkerProcess({
    command: ['sh', '-c', [...steps, end].join('\n')],
    environment: process.env,
    directory: folder,
    log: { write: () => undefined },
    source: { name: 'worker', worker: 0 },
  });
  t.after(() => worker.kill());
  return worker;
}

test('a worker that says something else than it is asked for is ended, and the batch knows whether it is its fault', async (t) => {
  for (const [what, play, message, hadBatch] of [
    ['ready before hello', [READY], 'hello is expected first', true],
    ['hello again', [HELLO, OPEN, HELLO], 'ready is expected', true],
    ['a result of no batch', [HELLO, OPEN, result(1)], 'ready is expected', true],
    ['ready again', [HELLO, OPEN, READY, run(1, 'a'), READY], 'the result of run 1 is expected', true],
    [
      'the result of a later batch',
      [HELLO, OPEN, READY, run(1, 'a'), result(2, 'a')],
      'the result of run 1 is expected',
      true,
    ],
    [
      'the result of an earlier batch',
      [HELLO, OPEN, READY, run(1, 'a'), result(0, 'a')],
      'the result of run 1 is expected',
      false,
    ],
    [
      'too many results',
      [HELLO, OPEN, READY, run(1, 'a'), result(1, 'a', 'b')],
      '2 outcomes for 1 items',
      true,
    ],
    ['too few results', [HELLO, OPEN, READY, run(1, 'a'), result(1)], '0 outcomes for 1 items', true],
  ] as [string, (ToWorker | FromWorker)[], string, boolean][]) {
    const worker = await played(t, play);
    const work = async () => {
      await worker.open(OPEN);
      await worker.run(['a']);
    };
    await assert.rejects(work, (error) => {
      assert.ok(error instanceof WorkerEnded, what);
      const how = `it broke the protocol: ${message}`;
      assert.deepEqual(
        [error.message, error.hadBatch],
        [`the worker's process ended (${how})`, hadBatch],
        what,
      );
      return true;
    });
    assert.equal(await worker.ended, `it broke the protocol: ${message}`, what);
  }
});

test('a worker that says more than it was asked is ended before its next batch, which runs elsewhere', async (t) => {
  const worker = await played(t, [HELLO, OPEN, READY, run(1, 'a'), result(1, 'b'), result(2, 'no')]);
  await worker.open(OPEN);
  const answer = await worker.run(['a']);
  assert.deepEqual('outcomes' in answer && answer.outcomes, [{ value: 'b' }]);
  assert.equal(await worker.ended, 'it says more than it was asked');
  await assert.rejects(worker.run(['c']), (error) => {
    assert.ok(error instanceof WorkerEnded);
    return !error.hadBatch;
  });
});

test('a worker that greets twice before it is asked is ended', async (t) => {
  const worker = await played(t, [HELLO, HELLO]);
  assert.equal(await worker.ended, 'it says more than it was asked');
  await assert.rejects(worker.open(OPEN), WorkerEnded);
});

test('another protocol, and a start that fails, are errors that say so', async (t) => {
  const other = await played(t, [{ ...HELLO, protocol: 2 }]);
  await assert.rejects(other.open(OPEN), {
    message: 'the python package 1.2.3 speaks protocol 2, this service 1: install the same version of both',
  });
  const failing = await played(t, [HELLO, OPEN, NO_LICENCE]);
  await assert.rejects(failing.open(OPEN), (error) => {
    assert.ok(error instanceof WorkerStartError);
    assert.deepEqual([error.message, error.traceback], ['get_model: OSError: no licence', 'Traceback']);
    return true;
  });
});

test('a worker retires when it has said so and ended, and what it is asked once it ended fails at once', async (t) => {
  const worker = await played(t, [HELLO, OPEN, READY, { type: 'retire' }, { type: 'retired' }], 'exit 7');
  await worker.open(OPEN);
  await worker.retire(60_000);
  assert.equal(await worker.ended, 'exit code 7');
  await assert.rejects(worker.run(['a']), { name: 'WorkerEnded', message: /exit code 7/ });
});
