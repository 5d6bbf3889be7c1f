import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ServingError } from '../../../lib/contract/errors.ts';
import { type Load, nextSize, type Scaling } from '../../../lib/workers/autoscale.ts';
import { Pool, type Pooled, type PoolOptions, pauseMs } from '../../../lib/workers/pool.ts';
import { settled, TestClock } from '../../support/clock.ts';

/** A process without a process: the test decides when it is ready and when it ends. */
class Fake implements Pooled {
  readonly place: number;
  readonly ended: Promise<string>;
  readonly start: Promise<void>;
  retired = false;
  #end!: (how: string) => void;
  becomeReady!: () => void;
  failStart!: (error: Error) => void;

  constructor(place: number) {
    this.place = place;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.start = new Promise((resolve, reject) => {
      this.becomeReady = resolve;
      this.failStart = reject;
    });
    void this.ended.then((how) => this.failStart(new Error(how)));
  }

  retire(): Promise<void> {
    this.retired = true;
    this.kill('exit code 0');
    return Promise.resolve();
  }

  kill(why: string): void {
    this.#end(why);
  }
}

function open(options: Partial<PoolOptions<Fake>> = {}) {
  const clock = new TestClock();
  const all: Fake[] = [];
  const crashes: string[] = [];
  const pool = new Pool<Fake>({
    size: 1,
    start(place) {
      const process = new Fake(place);
      all.push(process);
      return process;
    },
    ready: (process) => process.start,
    startTimeoutMs: 60_000,
    maxBatches: 0,
    clock,
    onCrash: (reason) => crashes.push(reason),
    ...options,
  });
  const latest = () => all.at(-1) as Fake;
  return { clock, pool, all, crashes, latest };
}

/** A pool whose processes are ready. */
async function ready(options: Partial<PoolOptions<Fake>> = {}) {
  const scene = open(options);
  const opening = scene.pool.open();
  for (const process of scene.all) process.becomeReady();
  await opening;
  return scene;
}

const forever = () => new Promise<never>(() => undefined);

describe('a pool', () => {
  test('is open when every process is ready, and none is free before', async () => {
    const { pool, all } = open({ size: 2 });
    let isOpen = false;
    const opening = pool.open().then(() => (isOpen = true));
    all[0]?.becomeReady();
    await settled();
    assert.deepEqual([isOpen, pool.free, pool.ready], [false, 1, 1]);
    all[1]?.becomeReady();
    await opening;
    assert.deepEqual([pool.free, pool.ready, pool.size], [2, 2, 2]);
  });

  test('one that cannot start fails the opening with its reason, and ends the others', async () => {
    const { pool, all, clock } = open({ size: 2 });
    const opening = assert.rejects(pool.open(), /no such model/);
    all[0]?.becomeReady();
    all[1]?.failStart(new Error('no such model'));
    await opening;
    assert.equal(all[0]?.retired, true);
    await clock.advance(60_000);
    assert.equal(all.length, 2);
  });

  test('closed while all its processes wait for their next start, it starts none again', async () => {
    const { pool, all, clock } = await ready({ size: 3 });
    for (const process of all) process.kill('exit code 1');
    await settled();
    await pool.close();
    await clock.advance(600_000);
    assert.equal(all.length, 3);
    assert.equal(pool.size, 0);
  });

  test('the others may wait for the first, which alone starts when it cannot', async () => {
    const failing = open({ size: 3 });
    const refused = assert.rejects(failing.pool.open(true), /no such model/);
    failing.all[0]?.failStart(new Error('no such model'));
    await refused;
    assert.equal(failing.all.length, 1);
    const { pool, all } = open({ size: 3 });
    const opening = pool.open(true);
    assert.equal(all.length, 1);
    all[0]?.becomeReady();
    await settled();
    assert.equal(all.length, 3);
    for (const process of all) process.becomeReady();
    await opening;
    assert.equal(pool.ready, 3);
  });

  test('one that is closed while it opens starts no more', async () => {
    const { pool, all } = open({ size: 2 });
    const opening = assert.rejects(pool.open(true), /the workers are stopping/);
    all[0]?.becomeReady();
    const closing = pool.close(0);
    await opening;
    await closing;
    assert.equal(all.length, 1);
  });

  test('one that is closed ends at once what still starts', async () => {
    const { pool, latest } = open();
    pool.open().catch(() => undefined);
    void pool.close();
    assert.match(await latest().ended, /not needed any more/);
  });

  test('one that does not get ready in time is ended', async () => {
    const { pool, clock } = open({ startTimeoutMs: 1_000 });
    const opening = assert.rejects(pool.open(), /was not ready within 1000 ms/);
    await clock.advance(1_000);
    await opening;
  });

  test('one that was frozen while it started goes on: what passed meanwhile is not its time', async () => {
    const { pool, clock, all, latest } = open({ startTimeoutMs: 5_000 });
    const opening = pool.open();
    await clock.advance(3_500);
    // The clock goes on in the sleep, and the timer that is due by then fires once.
    clock.leap(600_000);
    await clock.advance(500);
    latest().becomeReady();
    await opening;
    assert.equal(all.length, 1);
  });

  test('a process that ended is started again after a pause, which doubles until a batch completes', async () => {
    const { pool, clock, all, latest, crashes } = await ready();
    for (const [count, pause] of [100, 200, 400].entries()) {
      latest().kill('SIGKILL');
      await settled();
      assert.deepEqual([pool.free, pool.ready], [0, 0]);
      await clock.advance(pause - 1);
      assert.equal(all.length, count + 1);
      await clock.advance(1);
      assert.equal(all.length, count + 2);
      latest().becomeReady();
      await settled();
    }
    assert.deepEqual(crashes, ['SIGKILL', 'SIGKILL', 'SIGKILL']);
    await pool.use(() => Promise.resolve());
    latest().kill('SIGKILL');
    await clock.advance(100);
    assert.equal(all.length, 5);
  });

  test('the pause ends at 30 s', () => {
    assert.deepEqual([1, 2, 9, 10, 1_000].map(pauseMs), [100, 200, 25_600, 30_000, 30_000]);
  });

  test('work waits for a process, and gets the next one that is free or ready', async () => {
    const { pool, clock, latest } = await ready();
    latest().kill('SIGKILL');
    await settled();
    const ran = pool.use((process) => Promise.resolve(process));
    await clock.advance(100);
    latest().becomeReady();
    assert.equal(await ran, latest());
  });

  test('work that waits too long is refused, and does not take a process later', async () => {
    const { pool, clock, latest } = await ready({ startTimeoutMs: 5_000 });
    latest().kill('SIGKILL');
    await settled();
    const refused = assert.rejects(
      pool.use(() => Promise.resolve()),
      (error: ServingError) => error.code === 'model_unavailable',
    );
    await clock.advance(5_000);
    await refused;
    latest().becomeReady();
    await settled();
    assert.equal(pool.free, 1);
  });

  test('work that got its process waits no more: its limit takes the place of no other', async () => {
    const { pool, clock } = await ready({ startTimeoutMs: 5_000 });
    const ends: (() => void)[] = [];
    const work = () => pool.use(() => new Promise<void>((resolve) => ends.push(resolve)));
    const [first, second] = [work(), work()];
    await clock.advance(1_000);
    ends[0]?.();
    await first;
    const third = work();
    await clock.advance(4_000);
    ends[1]?.();
    await second;
    await settled();
    ends[2]?.();
    await third;
    assert.equal(clock.pending, 0);
  });

  test('reports when a process is free, and what waits goes first', async () => {
    const { pool } = await ready();
    let told = 0;
    pool.onFree = () => told++;
    let end = () => undefined as void;
    const first = pool.use(() => new Promise<void>((resolve) => (end = resolve)));
    const second = pool.use(() => Promise.resolve());
    await settled();
    assert.equal(pool.free, 0);
    end();
    await Promise.all([first, second]);
    assert.deepEqual([told, pool.free], [1, 1]);
  });

  test('after its number of batches a process retires, and another one takes its place', async () => {
    const { pool, all, latest } = await ready({ maxBatches: 2 });
    await pool.use(() => Promise.resolve());
    assert.equal(all.length, 1);
    await pool.use(() => Promise.resolve());
    assert.deepEqual([all.length, all[0]?.retired, pool.free], [2, true, 0]);
    latest().becomeReady();
    await settled();
    assert.equal(pool.free, 1);
    await pool.use(() => Promise.resolve());
    assert.equal(all.length, 2);
  });

  test('grows at once, and shrinks by processes that have finished their batch', async () => {
    const { pool, all } = await ready();
    pool.resize(3);
    assert.deepEqual([all.length, pool.size], [3, 3]);
    for (const process of all) process.becomeReady();
    await settled();
    const ends: (() => void)[] = [];
    const works = all.map(() => pool.use(() => new Promise<void>((resolve) => ends.push(resolve))));
    await settled();
    pool.resize(1);
    await settled();
    assert.deepEqual([pool.size, all.filter(({ retired }) => retired).length], [1, 0]);
    for (const end of ends) end();
    await Promise.all(works);
    await settled();
    assert.deepEqual(
      all.map(({ retired }) => retired),
      [false, true, true],
    );
    assert.deepEqual([pool.size, pool.ready], [1, 1]);
  });

  test('a process that ends while it leaves is not started again', async () => {
    const { pool, clock, all } = await ready({ size: 2 });
    pool.resize(1);
    await clock.advance(60_000);
    assert.deepEqual([all.length, pool.size, pool.ready], [2, 1, 1]);
  });

  test('closing waits for the batch that runs, refuses the next, and retires every process', async () => {
    const { pool, all, clock } = await ready({ size: 2 });
    let end = () => undefined as void;
    const running = pool.use(() => new Promise<void>((resolve) => (end = resolve)));
    await settled();
    let isClosed = false;
    const closing = pool.close().then(() => (isClosed = true));
    await settled();
    assert.deepEqual([isClosed, all[0]?.retired, all[1]?.retired], [false, false, true]);
    await assert.rejects(
      pool.use(() => Promise.resolve()),
      (error: ServingError) => error.code === 'model_unavailable',
    );
    end();
    await Promise.all([running, closing]);
    assert.deepEqual([all[0]?.retired, clock.pending], [true, 0]);
  });

  test('closing ends what is still busy after its time', async () => {
    const { pool, clock, latest } = await ready();
    pool.use(forever).catch(() => undefined);
    await settled();
    const closing = pool.close(3_000);
    await clock.advance(3_000);
    await closing;
    assert.match(await latest().ended, /still busy 3000 ms/);
  });

  test('knows how long its processes have worked', async () => {
    const { pool, clock } = await ready({ size: 2 });
    let end = () => undefined as void;
    const running = pool.use(() => new Promise<void>((resolve) => (end = resolve)));
    await clock.advance(400);
    assert.equal(pool.busyMs, 400);
    end();
    await running;
    await clock.advance(1_000);
    assert.equal(pool.busyMs, 400);
  });
});

const SCALING: Scaling = { least: 1, most: 4, threshold: 0.95, expandMs: 300_000, squeezeMs: 600_000 };
const EVERY_MS = 5_000;

/** The sizes over time under a load, in processes that it would keep busy. */
function sizesUnder(loadAt: (atMs: number) => number, minutes: number, scaling = SCALING): number[] {
  const loads: Load[] = [];
  let size = scaling.least;
  const sizes: number[] = [size];
  for (let atMs = EVERY_MS; atMs <= minutes * 60_000; atMs += EVERY_MS) {
    loads.push({ atMs, size, share: Math.min(1, loadAt(atMs) / size) });
    size = nextSize(loads, scaling);
    if (size !== sizes.at(-1)) sizes.push(size);
  }
  return sizes;
}

describe('the size of a pool', () => {
  test('grows one by one to what a constant load needs, and never back and forth', () => {
    for (let load = 0; load <= 6; load += 0.25) {
      const sizes = sizesUnder(() => load, 120);
      assert.deepEqual(
        sizes,
        sizes.toSorted((a, b) => a - b),
        `load ${load}`,
      );
      assert.ok((sizes.at(-1) as number) <= SCALING.most);
    }
    assert.deepEqual(
      sizesUnder(() => 2.5, 120),
      [1, 2, 3],
    );
    assert.deepEqual(
      sizesUnder(() => 100, 120),
      [1, 2, 3, 4],
    );
  });

  test('shrinks to the least when the load ends', () => {
    assert.deepEqual(
      sizesUnder((atMs) => (atMs < 30 * 60_000 ? 10 : 0), 120),
      [1, 2, 3, 4, 3, 2, 1],
    );
  });

  test('does not follow a peak that is shorter than its time', () => {
    assert.deepEqual(
      sizesUnder((atMs) => (atMs < 280_000 ? 10 : 0), 60),
      [1],
    );
  });

  test('a resize begins the measurement anew', () => {
    const loads = Array.from({ length: 61 }, (_, i) => ({ atMs: i * EVERY_MS, size: 1, share: 1 }));
    assert.equal(nextSize(loads, SCALING), 2);
    assert.equal(nextSize([...loads, { atMs: 305_000, size: 2, share: 1 }], SCALING), 2);
  });
});
