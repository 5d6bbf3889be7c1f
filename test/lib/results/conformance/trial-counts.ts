/** How the counts of a canary's trial add up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { At } from './world.ts';

export function describeTrialCounts(at: At): void {
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

  test('a store that is away says so, and nothing is counted', async (t) => {
    const { trials } = at(t).openAway();
    await assert.rejects(trials.add('v2 first', new Map([['canary|answers', 1]])), {
      code: 'results_unavailable',
    });
    await assert.rejects(trials.read('v2 first'), { code: 'results_unavailable' });
  });
}
