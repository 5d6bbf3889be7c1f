/** The queue before the model: its clock and its looks at the sockets are given. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunQueue } from '../../../local/run-queue.ts';

const RUN_MS = 10;

/** A queue with a clock of its own; requests and slices share their numbers; `finish` ends the run that is under way, after RUN_MS. */
function queue(mostWaiting: number) {
  let nowMs = 0;
  let onLook: (() => void) | undefined;
  const look = () => {
    onLook?.();
    onLook = undefined;
    return Promise.resolve();
  };
  const runs = new RunQueue({ mostWaiting, now: () => nowMs, look });
  const running: (() => void)[] = [];
  const served: number[] = [];
  const refused: number[] = [];
  let asked = 0;
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const work = () => new Promise<void>((resolve) => running.push(resolve));
  const ask = async () => {
    const number = asked++;
    void runs.run(work).then(
      () => served.push(number),
      (error: { code: string; status: number; retryAfterSeconds: number }) => {
        assert.deepEqual([error.code, error.status, error.retryAfterSeconds], ['rate_limited', 429, 1]);
        refused.push(number);
      },
    );
    await settled();
  };
  const askSlice = async () => {
    const number = asked++;
    void runs.runSlice(work).then(() => served.push(number));
    await settled();
  };
  const finish = async (afterMs = RUN_MS) => {
    assert.equal(running.length, 1, 'not one run at a time');
    nowMs += afterMs;
    running.shift()?.();
    await settled();
  };
  return {
    runs,
    ask,
    askSlice,
    finish,
    running,
    served,
    refused,
    pass: (ms: number) => (nowMs += ms),
    /** Once, when the queue looks at its sockets. */
    atNextLook: (act: () => void) => (onLook = act),
  };
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

test('requests refused at once count as arrivals: they alone keep the queue closed', async () => {
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

test('a batch is never refused, also when requests are', async () => {
  const { runs, ask, askSlice, finish, running, served, refused } = queue(3);
  for (let i = 0; i < 5; i++) await ask();
  assert.equal(runs.refuses(), true);
  for (let i = 0; i < 100; i++) await askSlice();
  while (running.length > 0) await finish();
  assert.deepEqual(refused, [1, 2, 3, 4]);
  assert.deepEqual(served, [0, ...Array.from({ length: 100 }, (_, i) => 5 + i)]);
});

test('requests that wait go before a slice that came earlier, and so does one that comes while it is looked for', async () => {
  const { ask, askSlice, finish, running, served, atNextLook } = queue(512);
  await askSlice();
  await askSlice();
  await ask();
  await ask();
  await finish();
  await finish();
  // The last waiting request runs; slice 1 is the only one left.
  atNextLook(() => void ask());
  await finish();
  while (running.length > 0) await finish();
  assert.deepEqual(served, [0, 2, 3, 4, 1]);
});

test('however many requests come, a waiting slice runs after four times the length of the last one', async () => {
  const { ask, askSlice, finish, running, served } = queue(512);
  for (let i = 0; i < 3; i++) await askSlice();
  for (let i = 0; i < 20; i++) await ask();
  while (running.length > 0) await finish();
  const places = [0, 1, 2].map((slice) => served.indexOf(slice));
  assert.deepEqual(places, [0, 5, 10]);
});

test('a slice that takes long has its turn after a second of requests at most', async () => {
  const { ask, askSlice, finish, running, served } = queue(512);
  await askSlice();
  await askSlice();
  await finish(60_000);
  assert.equal(running.length, 1);
  await askSlice();
  for (let i = 0; i < 128; i++) await ask();
  await finish(60_000);
  while (running.length > 0) await finish();
  assert.equal(served.indexOf(2), 2 + 1_000 / RUN_MS);
});

test('in an overload what finds no run under way is still served while batches wait', async () => {
  const { runs, ask, askSlice, finish, running, served, refused, atNextLook } = queue(1);
  for (let i = 0; i < 4; i++) await ask();
  for (let i = 0; i < 20; i++) await askSlice();
  // Twice as many requests as runs: one is there when the queue looks, one comes while it runs.
  for (let i = 0; i < 50; i++) {
    assert.equal(runs.refuses(), true);
    atNextLook(() => void ask());
    await finish();
  }
  const [slices, requests] = [served.filter((n) => n >= 4 && n < 24), served.filter((n) => n >= 24)];
  assert.deepEqual([slices.length, requests.length], [10, 39]);
  assert.equal(refused.length, 3 + (50 - 39 - running.length));
  while (running.length > 0) await finish();
  assert.equal(served.filter((n) => n >= 4 && n < 24).length, 20);
});

test('a slice that fails fails alone', async () => {
  const runs = new RunQueue({ now: () => 0, look: () => Promise.resolve() });
  const failing = runs.runSlice(() => Promise.reject(new Error('this one')));
  const next = runs.runSlice(async () => 'next');
  await assert.rejects(failing, /this one/);
  assert.equal(await next, 'next');
  assert.equal(await runs.run(async () => 'a request'), 'a request');
});

test('short runs that wait are begun together, long ones and slices alone', async () => {
  let nowMs = 0;
  const runs = new RunQueue({ now: () => nowMs, look: () => Promise.resolve() });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const running: (() => void)[] = [];
  const work = () => new Promise<void>((resolve) => running.push(resolve));
  const finish = async (afterMs: number) => {
    nowMs += afterMs;
    for (const end of running.splice(0)) end();
    await settled();
  };
  const done = [runs.run(work)];
  await settled();
  for (let i = 0; i < 40; i++) done.push(runs.run(work));
  assert.equal(running.length, 1, 'the length of a run is not known yet');
  await finish(0.25);
  assert.equal(running.length, 4, 'as many as take a millisecond');
  done.push(runs.runSlice(work));
  await finish(0.25);
  assert.equal(running.length, 1, 'a slice runs alone');
  await finish(0.25);
  assert.equal(running.length, 4, 'and the next requests together');
  await finish(100);
  assert.equal(running.length, 1, 'long ones run alone');
  while (running.length > 0) {
    await finish(100);
    assert.ok(running.length <= 1);
  }
  await Promise.all(done);
});
