/** The queue before the model: its clock and its looks at the sockets are given. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunQueue } from '../../../local/run-queue.ts';

const RUN_MS = 10;

/** A queue with a clock of its own; `finish` ends the run that is under way, after RUN_MS. */
function queue(mostWaiting: number) {
  let nowMs = 0;
  const runs = new RunQueue({ mostWaiting, now: () => nowMs, look: () => Promise.resolve() });
  const running: (() => void)[] = [];
  const served: number[] = [];
  const refused: number[] = [];
  let asked = 0;
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const ask = async () => {
    const number = asked++;
    const work = () => new Promise<void>((resolve) => running.push(resolve));
    void runs.run(work).then(
      () => served.push(number),
      (error: { code: string; status: number; retryAfterSeconds: number }) => {
        assert.deepEqual([error.code, error.status, error.retryAfterSeconds], ['rate_limited', 429, 1]);
        refused.push(number);
      },
    );
    await settled();
  };
  const finish = async (afterMs = RUN_MS) => {
    assert.equal(running.length, 1, 'not one run at a time');
    nowMs += afterMs;
    running.shift()?.();
    await settled();
  };
  return { runs, ask, finish, running, served, refused, pass: (ms: number) => (nowMs += ms) };
}

test('as many as may wait are served, one after the other and in order', async () => {
  const { ask, finish, running, served, refused } = queue(5);
  for (let i = 0; i < 6; i++) await ask();
  while (running.length > 0) await finish();
  assert.deepEqual([served, refused], [[0, 1, 2, 3, 4, 5], []]);
});

test('one more sends all who wait away, and only what finds the model free runs', async () => {
  const { runs, ask, finish, served, refused } = queue(3);
  for (let i = 0; i < 5; i++) await ask();
  assert.deepEqual(refused, [1, 2, 3, 4]);
  assert.equal(runs.refuses(), true);
  await ask();
  assert.deepEqual(refused, [1, 2, 3, 4, 5]);
  await finish();
  assert.equal(runs.refuses(), false);
  await ask();
  await finish();
  assert.deepEqual(served, [0, 6]);
});

test('while more comes than can be served it stays so, and once less comes requests may wait again', async () => {
  const { runs, ask, finish, running, served, refused, pass } = queue(3);
  for (let i = 0; i < 5; i++) await ask();
  // Two requests for each run, for two seconds.
  for (let i = 0; i < 200; i++) {
    if (running.length === 0) await ask();
    await ask();
    await finish();
  }
  assert.equal(refused.length, 4 + 200);
  // Half as many as can be served, for two seconds.
  for (let i = 0; i < 100; i++) {
    await ask();
    await finish();
    pass(RUN_MS);
  }
  const before = refused.length;
  for (let i = 0; i < 4; i++) await ask();
  assert.equal(runs.refuses(), false);
  while (running.length > 0) await finish();
  assert.equal(refused.length, before);
  assert.ok(served.length > 200);
});

test('refusals at the door count as arrivals: they alone keep the queue closed', async () => {
  const { runs, ask, finish, running, refused } = queue(1);
  for (let i = 0; i < 3; i++) await ask();
  for (let i = 0; i < 300; i++) {
    if (running.length === 0) await ask();
    assert.equal(runs.refuses(), true);
    await finish();
  }
  assert.equal(refused.length, 2);
});

test('of long runs only as many wait as are served in two seconds, but always 128', async () => {
  for (const [runMs, room] of [
    [1, 512],
    [10, 200],
    [100, 128],
  ] as const) {
    const { ask, finish, running, refused } = queue(512);
    for (let i = 0; i < 3; i++) {
      await ask();
      await finish(runMs);
    }
    for (let i = 0; i < 1 + room; i++) await ask();
    assert.deepEqual(refused, []);
    await ask();
    assert.equal(refused.length, room + 1, `runs of ${runMs} ms`);
    while (running.length > 0) await finish(runMs);
  }
});

test('a run that fails fails alone, and the next one runs', async () => {
  const runs = new RunQueue({ now: () => 0, look: () => Promise.resolve() });
  const failing = runs.run(() => Promise.reject(new Error('this one')));
  const next = runs.run(async () => 'next');
  await assert.rejects(failing, /this one/);
  assert.equal(await next, 'next');
});
