import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { prepareModelProcess, withModelProcess } from '../../convert/check/model-process.ts';
import { until } from '../support/until.ts';

/** The processes in which this one tries models. */
async function children(): Promise<string[]> {
  const args = ['-P', String(process.pid), '-f', 'check/process'];
  const { stdout } = await promisify(execFile)('pgrep', args).catch(() => ({ stdout: '' }));
  return stdout.split('\n').filter(Boolean);
}

/** A process has its name when its program has started. */
const haveStarted = (count: number) => until(async () => (await children()).length === count);

test('a process that was prepared takes the requests of the next caller alone, and ends with it', async () => {
  prepareModelProcess();
  await withModelProcess(undefined, async (first) => {
    assert.deepEqual(await first.ask('prepare', {}, { ms: 60_000 }), {});
    assert.equal((await children()).length, 1);
    await withModelProcess(undefined, async (second) => {
      await second.ask('prepare', {}, { ms: 60_000 });
      assert.equal((await children()).length, 2);
    });
  });
  await haveStarted(0);
});

test('a process that was prepared and is not needed ends', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  prepareModelProcess();
  // Each look takes some ms, for which no timer is needed.
  for (let looks = 0; looks < 1_000 && (await children()).length === 0; looks++);
  t.mock.timers.tick(9_999);
  assert.equal((await children()).length, 1);
  t.mock.timers.tick(2);
  t.mock.timers.reset();
  await haveStarted(0);
});
