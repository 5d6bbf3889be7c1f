/** A canary beside the version that serves: which of them runs what, and what is open. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { badModel } from '../../../lib/contract/errors.ts';
import type { CanaryShare, Runner } from '../../../lib/contract/values.ts';
import { isOfCanary } from '../../../lib/inference/canary-share.ts';
import type { CanaryWatch } from '../../../lib/inference/manager-options.ts';
import { ModelManager } from '../../../lib/inference/model-manager.ts';
import fc from '../../support/fast-check.ts';

const SINCE = '2026-11-29T00:00:00.000Z';
const share = (version: string, part = 0.5): CanaryShare => ({ version, share: part, since: SINCE });

interface World {
  serving: string;
  canary: CanaryShare | undefined;
  readonly refused: Set<string>;
  /** Versions in the order in which they were opened. */
  readonly opened: string[];
  readonly open: Set<string>;
  most: number;
  readonly told: string[];
}

function worldOf(isLambda = false) {
  const world: World = {
    serving: 'a',
    canary: undefined,
    refused: new Set(),
    opened: [],
    open: new Set(),
    most: 0,
    told: [],
  };
  const canaries: CanaryWatch = {
    opening: async ({ version }) => void world.told.push(`opening ${version}`),
    opened: ({ version }, error) => void world.told.push(`${error ? 'refused' : 'opened'} ${version}`),
    counted: (runner) => runner,
  };
  const source = {
    version: async () => world.serving,
    get canary() {
      return world.canary;
    },
    async open(version: string): Promise<Runner> {
      await setImmediate();
      if (world.refused.has(version)) throw badModel(`${version} does not open`);
      assert.ok(!world.open.has(version), `${version} is open already`);
      world.opened.push(version);
      world.open.add(version);
      world.most = Math.max(world.most, world.open.size);
      return {
        version,
        run: async () => [],
        async close() {
          await setImmediate();
          world.open.delete(version);
        },
      };
    },
  };
  const model = new ModelManager(source, {
    refreshMs: 1e9,
    now: () => 0,
    onError: () => undefined,
    canaries,
    ...(isLambda && { leftMs: () => 60_000 }),
  });
  return { world, model };
}

/** The version that runs a record with this key. */
async function versionFor(model: ModelManager, key: string): Promise<string> {
  const side = model.canary?.takes(key) ? model.canary.model : model;
  return side.use(async ({ version }) => version);
}

test('a share is that part of the keys, the same keys each time, and other keys for another canary', () => {
  const keys = Array.from({ length: 20_000 }, (_, i) => `uri-${i}`);
  for (const part of [0, 0.05, 0.5]) {
    const taken = keys.filter((key) => isOfCanary(key, share('b', part)));
    assert.ok(Math.abs(taken.length / keys.length - part) < 0.012, `${taken.length} for ${part}`);
    assert.deepEqual(
      keys.filter((key) => isOfCanary(key, share('b', part))),
      taken,
    );
  }
  const five = keys.filter((key) => isOfCanary(key, share('b', 0.05)));
  const ten = new Set(keys.filter((key) => isOfCanary(key, share('b', 0.1))));
  assert.ok(
    five.every((key) => ten.has(key)),
    'a larger share keeps those of a smaller one',
  );
  const other = five.filter((key) => isOfCanary(key, share('c', 0.05)));
  assert.ok(other.length < five.length / 5);
});

test('a canary takes its keys, a promotion opens nothing again, and a rollback closes it', async () => {
  const { world, model } = worldOf();
  await model.ready();
  assert.equal(model.canary, undefined);
  world.canary = share('b');
  await model.refresh();
  const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
  for (const key of keys)
    assert.equal(await versionFor(model, key), isOfCanary(key, share('b')) ? 'b' : 'a', key);
  [world.serving, world.canary] = ['b', undefined];
  await model.refresh();
  for (const key of keys) assert.equal(await versionFor(model, key), 'b');
  assert.deepEqual(world.opened, ['a', 'b']);
  await setImmediate();
  await setImmediate();
  assert.deepEqual([...world.open], ['b']);
  world.canary = share('c');
  await model.refresh();
  world.canary = undefined;
  await model.refresh();
  for (const key of keys) assert.equal(await versionFor(model, key), 'b');
  await setImmediate();
  await setImmediate();
  assert.deepEqual([...world.open], ['b']);
  assert.deepEqual(world.told, ['opening b', 'opened b', 'opening c', 'opened c']);
  await model.close();
});

test('a canary that does not open leaves its share to the serving version, and is tried again when it is due', async () => {
  const { world, model } = worldOf();
  await model.ready();
  world.canary = share('b');
  world.refused.add('b');
  await model.refresh();
  for (let i = 0; i < 20; i++) assert.equal(await versionFor(model, `k${i}`), 'a');
  assert.deepEqual(world.told, ['opening b', 'refused b']);
  world.refused.clear();
  await model.refresh();
  const versions = new Set<string>();
  for (let i = 0; i < 50; i++) versions.add(await versionFor(model, `k${i}`));
  assert.deepEqual([...versions].sort(), ['a', 'b']);
  await model.close();
});

test('on Lambda the first request of an environment waits for the canary, so that each delivery of a record has one side', async () => {
  const { world, model } = worldOf(true);
  world.canary = share('b');
  await model.ready();
  assert.deepEqual(world.opened, ['a']);
  const taken =
    Array.from({ length: 50 }, (_, i) => `k${i}`).find((key) => isOfCanary(key, share('b'))) ?? '';
  assert.equal(await versionFor(model, taken), 'b');
  await model.close();
});

test('whatever a pointer becomes, each use runs one of its two versions, at most two are open, and the last state is reached', async () => {
  const version = fc.constantFrom('a', 'b', 'c', 'd');
  const state = fc.record({ serving: version, canary: fc.option(version), isLong: fc.boolean() });
  const check = async (states: readonly { serving: string; canary: string | null; isLong: boolean }[]) => {
    const { world, model } = worldOf();
    await model.ready();
    const running: Promise<unknown>[] = [];
    const known = new Set(['a']);
    for (const { serving, canary, isLong } of states) {
      world.serving = serving;
      world.canary = canary === null || canary === serving ? undefined : share(canary);
      known.add(serving);
      if (canary !== null) known.add(canary);
      const refreshing = model.refresh();
      for (let i = 0; i < 6; i++) {
        const side = model.canary?.takes(`k${i}`) ? model.canary.model : model;
        running.push(
          side.use(async (runner) => {
            assert.ok(known.has(runner.version));
            for (let turn = 0; turn < (isLong ? 5 : 1); turn++) {
              await setImmediate();
              assert.ok(world.open.has(runner.version), 'it stays open while it runs');
            }
          }),
        );
      }
      await refreshing;
    }
    await Promise.all(running);
    for (let turn = 0; turn < 6; turn++) {
      await setImmediate();
      await model.refresh();
    }
    const wanted = [world.serving, ...(world.canary ? [world.canary.version] : [])];
    assert.equal(model.version, world.serving);
    assert.deepEqual([...world.open].sort(), wanted.sort());
    assert.ok(world.most <= 2, `${world.most} were open`);
    await model.close();
  };
  await fc.assert(fc.asyncProperty(fc.array(state, { minLength: 1, maxLength: 12 }), check), { numRuns: 60 });
});
