/** How runs of redelivered records are counted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enqueued } from '../../../support/enqueue.ts';
import { type At, MOST_RUNS } from './world.ts';

const delivery = (uri: string, attempts: number, replays = 0) => ({
  uri,
  attempts,
  enqueue: enqueued(`id-${uri}`, 1, replays),
});

export function describeRunCounts(at: At): void {
  test('a delivery is counted once, however often it is sent, and the next one again', async (t) => {
    const place = at(t);
    const { runs } = place.open();
    assert.equal(runs.most, MOST_RUNS);
    for (const attempts of [2, 2, 3, 3, 400]) await runs.begin([delivery('a', attempts), delivery('b', 2)]);
    const read = [delivery('a', 401), delivery('b', 3), delivery('c', 2)];
    assert.deepEqual(await runs.read(read), [3, 1, 0]);
    assert.deepEqual(await place.open().runs.read(read), [3, 1, 0], 'for all environments');
    assert.deepEqual(await place.openOther().runs.read(read), [0, 0, 0]);
  });

  test('the delivery that was counted last is taken back, once', async (t) => {
    const { runs } = at(t).open();
    await runs.begin([delivery('a', 2), delivery('b', 2)]);
    await runs.begin([delivery('a', 3)]);
    for (let times = 0; times < 3; times++) await runs.takeBack([delivery('a', 3), delivery('b', 2)]);
    assert.deepEqual(await runs.read([delivery('a', 4), delivery('b', 3)]), [1, 0]);
    // Another delivery of it is under way.
    await runs.takeBack([delivery('a', 2)]);
    assert.deepEqual(await runs.read([delivery('a', 4)]), [1]);
    await runs.begin([delivery('b', 2)]);
    assert.deepEqual(await runs.read([delivery('b', 3)]), [1], 'it may begin again');
  });

  test('a replay is counted from the start', async (t) => {
    const { runs } = at(t).open();
    await runs.begin([delivery('a', 2)]);
    assert.deepEqual(await runs.read([delivery('a', 2, 1)]), [0]);
    await runs.begin([delivery('a', 2, 1)]);
    assert.deepEqual(await runs.read([delivery('a', 3), delivery('a', 3, 1)]), [1, 1]);
  });

  test('a thousand records are counted at once', async (t) => {
    const { runs } = at(t).open();
    const many = Array.from({ length: 1_000 }, (_, i) => delivery(`r-${i}`, 2));
    await runs.begin(many);
    assert.deepEqual(new Set(await runs.read(many)), new Set([1]));
    assert.deepEqual(await runs.read([]), []);
  });
}
