import assert from 'node:assert/strict';
import childProcess, { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { IsolatedRunner, prepareIsolated } from '../../../lib/inference/isolated-runner.ts';
import { deadlyModel, ENDLESS } from '../../support/endless.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';

const IDENTITY = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]);

async function open(t: TestContext, model = IDENTITY): Promise<IsolatedRunner> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, model);
  const settings = { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: {} };
  const isolated = new IsolatedRunner({ file, version: 'v', settings });
  t.after(() => isolated.close());
  return isolated;
}

const record = (value: number): Inputs => new Map([['x', { kind: 'json', value: [value] }]]);
const valuesOf = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => outcome.ok && outcome.outputs[0]?.data[0]);

test('a run that was given up leaves nothing behind that the next one would take for its own', async (t) => {
  const isolated = await open(t);
  await assert.rejects(isolated.run([record(1)], 1), { code: 'timeout' });
  assert.deepEqual(valuesOf(await isolated.run([record(2)], 60_000)), [2]);
});

test('a run that is given up takes no other run along', async (t) => {
  const isolated = await open(t);
  await isolated.run([], 60_000);
  for (const pid of await children()) process.kill(pid, 'SIGSTOP');
  const [first, second] = await Promise.allSettled([
    isolated.run([record(1)], 100),
    isolated.run([record(2)], 60_000),
  ]);
  assert.equal(first.status, 'rejected');
  assert.ok(second.status === 'fulfilled');
  assert.deepEqual(valuesOf(second.value), [2]);
});

/** The processes of models that this one has started. @throws when there is none */
async function children(): Promise<number[]> {
  const { stdout } = await promisify(execFile)('pgrep', [
    '-P',
    String(process.pid),
    '-f',
    'isolated-process',
  ]);
  return stdout.trim().split('\n').map(Number);
}

/** Ends the processes that this one has started. @returns their ids */
async function killChildren(): Promise<number[]> {
  const pids = await children();
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  return pids;
}

/** True once this process knows that the other has ended. Until then it exists, at least as a zombie. */
function isGone(pid: number): boolean {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
}

test('a process that is not ready in time continues, and the next call finds it further', async (t) => {
  const isolated = await open(t);
  // However quick the machine is, it is not ready before it may run.
  const { fork } = childProcess;
  const stopped = t.mock.method(childProcess, 'fork', (...given: Parameters<typeof fork>) => {
    const child = fork(...given);
    child.kill('SIGSTOP');
    return child;
  });
  syncBuiltinESMExports();
  const pids = new Set<number>();
  for (let times = 0; times < 3; times++) {
    await assert.rejects(isolated.run([], 1), { code: 'timeout', message: /was not ready within 1 ms$/ });
    for (const pid of await children()) pids.add(pid);
  }
  assert.equal(stopped.mock.callCount(), 1);
  stopped.mock.restore();
  syncBuiltinESMExports();
  for (const pid of pids) process.kill(pid, 'SIGCONT');
  assert.deepEqual(valuesOf(await isolated.run([record(2)], 60_000)), [2]);
  assert.deepEqual([...pids], await children());
});

test('a run that does not end in time takes its process along', async (t) => {
  const isolated = await open(t);
  await isolated.run([], 60_000);
  const before = await children();
  for (const pid of before) process.kill(pid, 'SIGSTOP');
  await assert.rejects(isolated.run([record(1)], 200), {
    code: 'timeout',
    message: /did not end within 200 ms/,
  });
  assert.deepEqual(valuesOf(await isolated.run([record(2)], 60_000)), [2]);
  assert.notDeepEqual(await children(), before);
});

test('records whose process ends are model_failed, with how it ended, and the next ones get a new process', async (t) => {
  const isolated = await open(t, deadlyModel());
  const rounds = (value: number): Inputs => new Map([['rounds', { kind: 'json', value }]]);
  // Its process cannot answer before it is found.
  const running = isolated.run([rounds(ENDLESS)], 60_000);
  await until(() =>
    killChildren().then(
      () => true,
      () => false,
    ),
  );
  await assert.rejects(running, { code: 'model_failed', message: /ended its process \(SIGKILL\)/ });
  assert.deepEqual(valuesOf(await isolated.run([rounds(2)], 60_000)), [2]);
});

test('a process that ended while nothing ran is replaced, and costs no record its time', async (t) => {
  const isolated = await open(t);
  await isolated.run([], 60_000);
  const pids = await killChildren();
  // A large process takes longer to end than a fixed pause on a busy machine.
  await until(async () => pids.every(isGone));
  assert.deepEqual(valuesOf(await isolated.run([record(3)], 60_000)), [3]);
});

test('a process that was prepared runs the next model, and one that has ended by then runs none', async (t) => {
  prepareIsolated();
  const [pid = 0] = await children();
  const isolated = await open(t);
  assert.deepEqual(valuesOf(await isolated.run([record(4)], 60_000)), [4]);
  assert.deepEqual(await children(), [pid]);
  await isolated.close();

  prepareIsolated();
  const pids = await killChildren();
  await until(async () => pids.every(isGone));
  const other = await open(t);
  assert.deepEqual(valuesOf(await other.run([record(5)], 60_000)), [5]);
});

test('a process that was still starting when its model was closed goes on, and runs the next model with its answers', async (t) => {
  const first = await open(t, deadlyModel());
  await assert.rejects(first.run([new Map([['rounds', { kind: 'json', value: 2 }]])], 0), {
    code: 'timeout',
    message: /was not ready/,
  });
  const pids = await children();
  await first.close();
  const second = await open(t);
  assert.deepEqual(valuesOf(await second.run([record(6)], 60_000)), [6]);
  assert.deepEqual(await children(), pids);
  await second.close();
  await until(async () => pids.every(isGone));
});

test('a process that was prepared and is not needed ends', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  prepareIsolated();
  t.mock.timers.tick(10_001);
  t.mock.timers.reset();
  await until(() =>
    children().then(
      () => false,
      () => true,
    ),
  );
});
