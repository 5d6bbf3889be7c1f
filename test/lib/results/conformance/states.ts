/** The state of a uri between its announcement and its outcome. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { type NamedRequest, sendAnnounced } from '../../../../lib/pipeline/submit.ts';
import type { States } from '../../../../lib/results/store.ts';
import { enqueued } from '../../../support/enqueue.ts';
import { until } from '../../../support/until.ts';
import { announced, failure, success } from './records.ts';
import type { At } from './world.ts';

const one = enqueued('one', 1);
const two = enqueued('two', 2);
const running = (uri: string, enqueue = one) => ({ uri, enqueue });
/** The states of the uri, and of its enqueues `one` and `two`. */
const statusesOf = (states: States) =>
  Promise.all([{}, { identity: 'one' }, { identity: 'two' }].map((query) => states.status('a', query)));

export function describeStates(at: At): void {
  test('an announced record is running once a batch function has it, until its outcome or its time is up', async (t) => {
    const { results, states } = at(t).open();
    await Promise.all(['a', 'b', 'c'].map((uri) => states.announce(announced(uri, 'one'))));
    await states.markRunning(
      ['a', 'b', 'nobody'].map((uri) => running(uri)),
      60_000,
    );
    const seen = await Promise.all(['a', 'b', 'c', 'nobody'].map((uri) => states.status(uri)));
    assert.deepEqual(seen, ['running', 'running', 'queued', 'unknown']);
    await results.save([success('a', 1, one)], 'v');
    assert.equal(await states.status('a'), 'succeeded');
    await states.markRunning([running('a')], 60_000);
    assert.equal(await states.status('a'), 'succeeded');
    // A worker that died sends nothing more: the record is delivered again.
    await states.markRunning([running('b')], 1);
    await until(async () => (await states.status('b')) !== 'running');
    assert.equal(await states.status('b'), 'queued');
    await states.markRunning([running('b')], 60_000);
    assert.equal(await states.status('b', { identity: 'one' }), 'running');
    await states.markRunning([], 60_000);
  });

  test('a uri with a result that is enqueued again is queued again, until that has its result too', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    await results.save([success('a', 1, one)], 'v');
    await states.announce(announced('a', 'two'));
    assert.deepEqual(await statusesOf(states), ['queued', 'succeeded', 'queued']);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 1);
    await states.markRunning([running('a', one)], 60_000);
    assert.deepEqual(await statusesOf(states), ['queued', 'succeeded', 'queued']);
    await states.markRunning([running('a', two)], 60_000);
    assert.deepEqual(await statusesOf(states), ['running', 'succeeded', 'running']);
    await results.save([success('a', 2, two)], 'v');
    assert.deepEqual(await statusesOf(states), ['succeeded', 'unknown', 'succeeded']);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 2);
    await results.take('a');
    assert.deepEqual(await statusesOf(states), ['unknown', 'unknown', 'unknown']);
  });

  test('a run is that of its own enqueue, and another enqueue of the uri neither runs with it nor hides it', async (t) => {
    const { results, states } = at(t).open();
    for (const identity of ['one', 'two']) await states.announce(announced('a', identity));
    await states.markRunning([running('a', one)], 60_000);
    assert.deepEqual(await statusesOf(states), ['running', 'running', 'queued']);
    await results.save([success('a', 1, one)], 'v');
    assert.deepEqual(await statusesOf(states), ['queued', 'succeeded', 'queued']);
    await states.markRunning([running('a', two)], 60_000);
    // The message of the first comes again while the second runs.
    await states.markRunning([running('a', one)], 60_000);
    assert.deepEqual(await statusesOf(states), ['running', 'succeeded', 'running']);
  });

  test('a uri that is queued again stays queued when its earlier result is taken', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    await results.save([success('a', 1, one)], 'v');
    await states.announce(announced('a', 'two'));
    assert.equal((await results.take('a'))?.identity, 'one');
    assert.deepEqual(
      [await states.status('a'), await states.status('a', { identity: 'two' })],
      ['queued', 'queued'],
    );
    assert.equal(await states.cancel('a'), true, 'the second enqueue can still be cancelled');
  });

  test('a uri is queued as long as one of its announced enqueues has no outcome, whichever comes first', async (t) => {
    const { results, states } = at(t).open();
    for (const identity of ['one', 'two', 'three']) await states.announce(announced('a', identity));
    await results.save([success('a', 3, enqueued('three', 3))], 'v');
    assert.equal(await states.status('a'), 'queued');
    // These were sent before, and count no more; their messages are done all the same.
    await results.save([success('a', 1, one)], 'v');
    assert.equal(await states.status('a'), 'queued');
    await results.save([success('a', 2, two)], 'v');
    assert.equal(await states.status('a'), 'succeeded');
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 3);
  });

  test('what could not be sent is withdrawn, and what else was announced or stored stays', async (t) => {
    const { results, states } = at(t).open();
    const first = await states.announce(announced('a', 'one'));
    const second = await states.announce(announced('a', 'two'));
    await first.withdraw();
    assert.deepEqual(await statusesOf(states), ['queued', 'unknown', 'queued']);
    await second.withdraw();
    await second.withdraw();
    assert.equal(await states.status('a'), 'unknown');
    await states.announce(announced('a', 'three'));
    await results.save([success('a', 1, enqueued('three', 1))], 'v');
    const again = await states.announce(announced('a', 'four'));
    assert.equal(await states.status('a'), 'queued');
    await again.withdraw();
    assert.equal(await states.status('a'), 'succeeded');
  });

  test('an announcement that is made again counts once', async (t) => {
    const place = at(t);
    const { states } = place.open();
    await states.announce(announced('a', 'one'));
    const again = await place.open().states.announce(announced('a', 'one'));
    assert.equal(await states.status('a'), 'queued');
    await again.withdraw();
    assert.equal(await states.status('a'), 'unknown');
  });

  test('what is announced for one job is not queued in another', async (t) => {
    const place = at(t);
    const here = place.open().states;
    const there = place.openOther().states;
    await here.announce(announced('a', 'one'));
    assert.deepEqual([await here.status('a'), await there.status('a')], ['queued', 'unknown']);
  });

  test('a record that could not be sent is withdrawn, and the one beside it stays sent', async (t) => {
    const { states } = at(t).open();
    const send = async ({ uri }: { uri: string }) => {
      if (uri === 'a') throw new ServingError('queue_unavailable', 'no', { uri });
    };
    const records = [announced('a', 'one'), announced('b', 'one')];
    await assert.rejects(sendAnnounced(states, records, send), { code: 'queue_unavailable', uri: 'a' });
    assert.deepEqual([await states.status('a'), await states.status('b')], ['unknown', 'queued']);
  });

  test('the key of a request stands for that request alone', async (t) => {
    const place = at(t);
    const { states } = place.open();
    const announce = (identity: string, request: NamedRequest) =>
      place.open().states.announce({ ...announced('a', identity), request });
    await announce('one', { key: 'k1' });
    await announce('one', { key: 'k1' });
    await assert.rejects(announce('two', { key: 'k1' }), { code: 'conflict', message: /"k1"/ });
    assert.deepEqual(await statusesOf(states), ['queued', 'queued', 'unknown']);
    await announce('two', { key: 'k2', digest: 'of all records' });
    await announce('three', { key: 'k2', digest: 'of all records' });
    await assert.rejects(announce('two', { key: 'k2', digest: 'of others' }), { code: 'conflict' });
    const other = { ...announced('a', 'four'), request: { key: 'k1' } };
    await place.openOther().states.announce(other);
  });

  test('a uri without an announcement has the status of its result', async (t) => {
    const { results, states } = at(t).open();
    await results.save([success('a', 1, one), failure('b', 'bad_input', one)], 'v');
    assert.deepEqual([await states.status('a'), await states.status('b')], ['succeeded', 'failed']);
    assert.deepEqual(await statusesOf(states), ['succeeded', 'succeeded', 'unknown']);
    assert.equal(await states.status('b', { identity: 'one' }), 'failed');
  });
}
