/** The measurements of a job's environments, and the versions they serve with. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOST_CAPTURES, TIMERS, Timers } from '../../../../lib/metrics/timers.ts';
import { success } from './records.ts';
import type { At } from './world.ts';

function measured(times = 1, ms = 5): Timers {
  const timers = new Timers();
  for (let i = 0; i < times; i++) timers.record('zoo.serving.request.predict', ms);
  return timers;
}

export function describeMeasurements(at: At): void {
  test('measurements of two environments add up', async (t) => {
    const place = at(t);
    for (const ms of [10, 20]) {
      const timers = measured(50, ms);
      await place.open().results.save([], '', timers);
      assert.ok(timers.empty);
    }
    const reports = await place.open().results.metrics();
    assert.equal(reports.length, 6);
    const predict = reports.find(({ name }) => name === 'zoo.serving.request.predict');
    assert.ok(predict);
    assert.equal(predict.count, 100);
    assert.ok(Math.abs(predict.mean - 15) < 1e-6);
    assert.ok(Math.abs(predict._99thPercentile - 20) < 20 * 0.05);
    assert.ok(Math.abs(predict._75thPercentile - 20) < 20 * 0.05);
  });

  test('measurements that could not be delivered are delivered with the next', async (t) => {
    const place = at(t);
    const timers = measured();
    await assert.rejects(place.openAway().results.save([], '', timers));
    await assert.rejects(place.openAway().results.save([success('a', 1)], '', timers));
    const { results } = place.open();
    await results.save([success('a', 1)], '', timers);
    const [predict] = (await results.metrics()).filter(({ count }) => count > 0);
    assert.deepEqual([predict?.name, predict?.count], ['zoo.serving.request.predict', 1]);
  });

  test('every timer is reported, and the seconds since the first measurement, also after later ones', async (t) => {
    const place = at(t);
    const at0 = 1_700_000_000_000;
    const before = await place.open({ now: () => at0 }).results.timers();
    assert.deepEqual([[...before.histograms.keys()].sort(), before.seconds], [[...TIMERS].sort(), 0]);
    await place.open({ now: () => at0 }).results.save([], 'v', measured());
    await place.open({ now: () => at0 + 30_000 }).results.save([success('a', 1)], 'v', measured());
    const { seconds, histograms } = await place.open({ now: () => at0 + 90_000 }).results.timers();
    const { count, sum, squares } = histograms.get('zoo.serving.request.predict') ?? assert.fail();
    assert.deepEqual([seconds, count, sum, squares], [90, 2, 10, 50]);
    assert.equal(histograms.get('zoo.serving.redis.put')?.count, 0);
  });

  test('lost captures add up over environments, outside of the timers', async (t) => {
    const place = at(t);
    const { results } = place.open();
    assert.equal(await results.lostCaptures(), 0);
    for (const lost of [3, 40]) {
      const timers = new Timers();
      timers.record(LOST_CAPTURES, lost);
      await place.open().results.save([], 'v', timers);
    }
    assert.equal(await results.lostCaptures(), 43);
    const names = (await results.metrics()).map(({ name }) => name).sort();
    assert.deepEqual(names, [...TIMERS].sort());
  });

  test('the versions that served within the last hour are known, the latest first', async (t) => {
    const place = at(t);
    const minute = 60_000;
    const now = 1_700_000_000_000;
    const openAt = (minutes: number) => place.open({ now: () => now + minutes * minute }).results;
    assert.deepEqual(await openAt(0).serving(), []);
    await openAt(0).save([success('a', 1)], 'v1', measured());
    await openAt(5).save([success('b', 1)], '', measured());
    await openAt(10).save([success('c', 1)], 'v2', measured());
    const servingAt = async (minutes: number) =>
      (await openAt(minutes).serving()).map(({ version, atMs }) => [version, (atMs - now) / minute]);
    const [v1, v2] = [
      ['v1', 0],
      ['v2', 10],
    ];
    assert.deepEqual(await servingAt(10), [v2, v1]);
    assert.deepEqual(await servingAt(60), [v2, v1]);
    assert.deepEqual(await servingAt(61), [v2]);
    assert.deepEqual(await servingAt(71), []);
    await openAt(72).save([success('d', 1)], 'v1', measured());
    assert.deepEqual(await servingAt(72), [['v1', 72]]);
  });
}
