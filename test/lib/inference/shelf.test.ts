import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { modelUnavailable, ServingError } from '../../../lib/contract/errors.ts';
import type { Runner } from '../../../lib/contract/values.ts';
import { ModelManager } from '../../../lib/inference/model-manager.ts';
import { ModelShelf } from '../../../lib/inference/model-shelf.ts';
import fc from '../../support/fast-check.ts';

const MB = 1024 * 1024;

interface World {
  /** Memory of each model, in MB. */
  readonly sizes: Readonly<Record<string, number>>;
  readonly budgetMB: number;
  readonly pinned?: readonly string[];
  /** Called before a model opens. */
  readonly opening?: (name: string) => Promise<void>;
  /** Default: always the same. */
  readonly version?: () => string;
  /** Ms left of each invocation. Default: it runs on one machine. */
  readonly leftMs?: number | undefined;
}

const REFRESH_MS = 1e9;

/** A shelf of models that count what is open, and fail the test where a runner is used after its end. */
function shelfOf({
  sizes,
  budgetMB,
  pinned = [],
  opening = async () => {},
  version: versionNow = () => 'v1',
  leftMs,
}: World) {
  const open = new Map<string, number>();
  const openings: string[] = [];
  let nowMs = 0;
  let mostBytes = 0;
  const shelf = new ModelShelf({
    budgetBytes: budgetMB * MB,
    pinned,
    now: () => nowMs,
    manager: (name, makeRoom) =>
      new ModelManager<Runner>(
        {
          version: async () => versionNow(),
          async open(version, time) {
            const leaveRoom = await makeRoom((sizes[name] ?? 1) * MB, time?.signal, true);
            openings.push(name);
            try {
              await opening(name);
            } catch (error) {
              leaveRoom();
              throw error;
            }
            open.set(name, (open.get(name) ?? 0) + 1);
            const bytes = [...open].reduce((sum, [one, count]) => sum + count * (sizes[one] ?? 1) * MB, 0);
            mostBytes = Math.max(mostBytes, bytes);
            let isClosed = false;
            return {
              version,
              async run() {
                assert.equal(isClosed, false, `${name} runs after it was closed`);
                return [];
              },
              async close() {
                isClosed = true;
                await setImmediate();
                open.set(name, (open.get(name) ?? 0) - 1);
                leaveRoom();
              },
            };
          },
        },
        {
          refreshMs: REFRESH_MS,
          now: () => nowMs,
          onError: (error) => assert.fail(error.message),
          ...(leftMs !== undefined && { leftMs: () => leftMs }),
        },
      ),
  });
  const opened = () => [...open].flatMap(([name, count]) => (count > 0 ? [name] : []));
  return {
    shelf,
    openings,
    opened,
    mostMB: () => mostBytes / MB,
    pass: (ms: number) => (nowMs += ms),
    use: (name: string, work: () => Promise<void> = async () => {}) =>
      shelf.model(name).use(async (runner) => {
        await runner.run([]);
        await work();
        await runner.run([]);
      }),
  };
}

test('callers that come together share one opening', async () => {
  const { openings, use } = shelfOf({ sizes: { a: 1 }, budgetMB: 2 });
  await Promise.all([use('a'), use('a'), use('a')]);
  await use('a');
  assert.deepEqual(openings, ['a']);
});

test('the model that was not used for the longest time makes room, and opens again when it is asked for', async () => {
  const { openings, opened, use } = shelfOf({ sizes: { a: 1, b: 1, c: 1 }, budgetMB: 2 });
  await use('a');
  await use('b');
  await use('a');
  await use('c');
  assert.deepEqual(opened(), ['a', 'c']);
  await use('b');
  assert.deepEqual(opened(), ['c', 'b'].sort());
  assert.deepEqual(openings, ['a', 'b', 'c', 'b']);
});

test('a model in use is not closed: another one waits until its use has ended', async () => {
  const { opened, use } = shelfOf({ sizes: { a: 2, b: 2 }, budgetMB: 2 });
  let finish = () => {};
  const long = use('a', () => new Promise<void>((resolve) => (finish = resolve)));
  await setImmediate();
  const waiting = use('b');
  for (let i = 0; i < 5; i++) await setImmediate();
  assert.deepEqual(opened(), ['a']);
  finish();
  await Promise.all([long, waiting]);
  assert.deepEqual(opened(), ['b']);
});

test('a pinned model stays, and what finds no room beside it fails at once', async () => {
  const { opened, use } = shelfOf({ sizes: { a: 1, b: 1, c: 2 }, budgetMB: 2, pinned: ['a'] });
  await use('a');
  await use('b');
  await use('a');
  await assert.rejects(use('c'), { code: 'timeout', message: /need all of models\.memoryMB/ });
  assert.deepEqual(opened().includes('a'), true);
});

test('a model that needs more than the budget is refused with both numbers, and closes nothing', async () => {
  const { opened, use } = shelfOf({ sizes: { a: 1, b: 3 }, budgetMB: 2 });
  await use('a');
  await assert.rejects(use('b'), {
    message: /model b needs 3 MB of memory, and models\.memoryMB gives 2 MB/,
  });
  assert.deepEqual(opened(), ['a']);
});

test('a model that does not open is tried again after 5 s, then after twice as long, and then serves', async () => {
  let isBroken = true;
  const { openings, pass, use } = shelfOf({
    sizes: { a: 1, b: 1 },
    budgetMB: 1,
    async opening(name) {
      if (name === 'b' && isBroken) throw modelUnavailable('it is broken');
    },
  });
  const attempts = () => openings.filter((name) => name === 'b').length;
  const fails = () => assert.rejects(use('b'), { code: 'model_unavailable', message: 'it is broken' });
  await Promise.all([fails(), fails()]);
  await fails();
  assert.equal(attempts(), 1);
  await use('a');
  pass(5_000);
  await fails();
  assert.equal(attempts(), 2);
  pass(9_999);
  await fails();
  assert.equal(attempts(), 2);
  isBroken = false;
  pass(1);
  await use('b');
  await use('a');
});

const NO_ROOM_FOR_BOTH = { sizes: { a: 2, b: 1 }, budgetMB: 3 };

test('on one machine a new version without room beside the one before serves once that one has closed', async () => {
  let version = 'v1';
  const world = shelfOf({ ...NO_ROOM_FOR_BOTH, version: () => version });
  const { shelf, use } = world;
  await use('b');
  await use('a');
  version = 'v2';
  world.pass(REFRESH_MS);
  await use('a', async () => {
    for (let turn = 0; turn < 9; turn++) await setImmediate();
  });
  assert.equal(shelf.model('a').version, undefined);
  await use('a');
  assert.equal(shelf.model('a').version, 'v2');
  assert.equal(world.mostMB(), 3);
});

test('on Lambda a new version without room beside the one before answers the call that finds it', async () => {
  let version = 'v1';
  const world = shelfOf({ ...NO_ROOM_FOR_BOTH, version: () => version, leftMs: 10_000 });
  const { shelf, use } = world;
  await use('b');
  await use('a');
  version = 'v2';
  world.pass(REFRESH_MS);
  const versions = await Promise.all(
    [1, 2].map(() => shelf.model('a').use(async (runner) => runner.version)),
  );
  assert.deepEqual(versions, ['v2', 'v2']);
  assert.deepEqual(world.openings, ['b', 'a', 'a']);
  assert.equal(world.mostMB(), 3);
});

test('on Lambda a new version that does not open where the one before had to close fails its calls, and is tried again', async () => {
  let version = 'v1';
  let isAway = false;
  const opening = async () => {
    if (isAway) throw modelUnavailable('S3 does not answer');
  };
  const world = shelfOf({ ...NO_ROOM_FOR_BOTH, version: () => version, leftMs: 10_000, opening });
  const { shelf, use } = world;
  await use('b');
  await use('a');
  version = 'v2';
  isAway = true;
  world.pass(REFRESH_MS);
  await assert.rejects(use('a'), { code: 'model_unavailable' });
  isAway = false;
  await use('a');
  assert.equal(shelf.model('a').version, 'v2');
});

test('a model that exists no more is closed', async () => {
  const { shelf, opened, use } = shelfOf({ sizes: { a: 1, b: 1 }, budgetMB: 2 });
  await use('a');
  await use('b');
  shelf.keep(new Set(['b']));
  await setImmediate();
  await setImmediate();
  assert.deepEqual(opened(), ['b']);
  assert.equal(shelf.bytes, MB);
});

test('in any order of uses, the open models keep to the budget, none runs after its end, and all end', async () => {
  const step = fc.tuple(fc.constantFrom('a', 'b', 'c', 'd', 'e'), fc.nat(6));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.constantFrom(3, 4, 6), async (steps, budgetMB) => {
      const sizes = { a: 1, b: 1, c: 2, d: 2, e: 3 };
      const world = shelfOf({ sizes, budgetMB });
      const uses = steps.map(async ([name, turns], i) => {
        for (let turn = 0; turn < i % 7; turn++) await setImmediate();
        await world.use(name, async () => {
          for (let turn = 0; turn < turns; turn++) await setImmediate();
        });
      });
      await Promise.all(uses);
      assert.ok(world.mostMB() <= budgetMB, `${world.mostMB()} MB`);
      await world.shelf.close();
      assert.equal(world.shelf.bytes, 0);
      assert.deepEqual(world.opened(), []);
    }),
    { numRuns: 200 },
  );
});

test('an error that is not ours becomes internal and is remembered as one', async () => {
  const { use } = shelfOf({
    sizes: { a: 1 },
    budgetMB: 1,
    opening: () => Promise.reject(new Error('a bug')),
  });
  await assert.rejects(use('a'), (error) => error instanceof ServingError && /a bug/.test(error.message));
});
