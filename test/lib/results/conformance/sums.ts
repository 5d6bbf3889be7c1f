/** How what all environments count adds up: of a canary's trial, of costs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { At } from './world.ts';

export function describeSums(at: At): void {
  test('counts of a trial add up over environments, and belong to it alone', async (t) => {
    const place = at(t);
    const [one, two] = [place.open().trials, place.open().trials];
    await Promise.all([
      one.add(
        'v2 first',
        new Map([
          ['canary|answers', 3],
          ['serving|answers', 1_000_000],
        ]),
      ),
      two.add('v2 first', new Map([['canary|answers', 4]])),
      one.add('v2 second', new Map([['canary|answers', 5]])),
    ]);
    const read = await two.read('v2 first');
    assert.deepEqual([read.size, read.get('canary|answers'), read.get('serving|answers')], [2, 7, 1_000_000]);
    assert.deepEqual(await one.read('v2 second'), new Map([['canary|answers', 5]]));
    assert.deepEqual(await one.read('v3 first'), new Map());
    assert.deepEqual(await place.openOther().trials.read('v2 first'), new Map(), 'of another job');
  });

  test('an addition answers the sums of its names, of all environments, and those of nothing are 0', async (t) => {
    const place = at(t);
    const [one, two] = [place.open(), place.open()];
    const amounts = (day: number, month: number) => new Map(Object.entries({ '29': day, month }));
    assert.deepEqual(await one.costs.add('2026-11', amounts(0, 0)), amounts(0, 0));
    assert.deepEqual(await one.costs.add('2026-11', amounts(0.25, 0.25)), amounts(0.25, 0.25));
    assert.deepEqual(await two.costs.add('2026-11', amounts(0.5, 0.5)), amounts(0.75, 0.75));
    assert.deepEqual(await two.costs.add('2026-12', amounts(1e-7, 1e-7)), amounts(1e-7, 1e-7));
    assert.deepEqual(await one.trials.read('2026-11'), new Map(), 'of another kind');
  });

  test('a store that is away says so, and nothing is counted', async (t) => {
    const { trials } = at(t).openAway();
    await assert.rejects(trials.add('v2 first', new Map([['canary|answers', 1]])), {
      code: 'results_unavailable',
    });
    await assert.rejects(trials.read('v2 first'), { code: 'results_unavailable' });
  });
}
