/** A uri is cancelled: what that is the outcome of, and until when it can be done. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Results } from '../../../../lib/results/store.ts';
import { enqueued } from '../../../support/enqueue.ts';
import { announced, drained, failure, nameOf, nextMs, outcomeOf, success } from './records.ts';
import type { At } from './world.ts';

const one = enqueued('one', 1);
const HOUR_MS = 3_600_000;

export function describeCancelling(at: At): void {
  test('a cancelled uri is cancelled before its message comes, and gives that to no enqueue but its own', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    await states.cancel('a');
    assert.equal(await states.status('a'), 'cancelled');
    assert.equal(await states.status('a', { identity: 'one' }), 'cancelled');
    assert.equal(await states.status('a', { identity: 'two' }), 'unknown');
    assert.equal(await results.take('a', { identity: 'two' }), undefined);
    await assert.rejects(results.take('a', { identity: 'one' }), { code: 'cancelled', uri: 'a' });
  });

  test('a cancelled record keeps its outcome though it runs later, and though it is taken', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    assert.equal(await states.cancel('a'), true);
    assert.equal(await results.save([success('a', 1, one), success('b', 2, enqueued('two', 1))], 'v'), 1);
    const cancelled = { code: 'cancelled', uri: 'a', message: /cancelled before it had a result/ };
    await assert.rejects(results.get('a'), cancelled);
    await assert.rejects(results.get('a', { identity: 'one' }), cancelled);
    assert.equal(await results.get('a', { identity: 'two' }), undefined);
    await assert.rejects(results.take('a'), cancelled);
    await assert.rejects(results.take('a', { identity: 'one' }), cancelled);
    assert.equal(await results.save([success('a', 1, one)], 'v'), 0);
    await assert.rejects(results.get('a'), cancelled);
    assert.deepEqual(
      [await states.status('a'), await states.status('a', { identity: 'one' })],
      ['cancelled', 'cancelled'],
    );
    assert.equal(await states.cancel('a'), true, 'cancelling again is no other answer');
  });

  test('what is enqueued after a cancellation is not cancelled, and what was announced before it is', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    const later = Date.now() + HOUR_MS;
    await states.cancel('a');
    // The clock of SQS may be ahead of that of the store.
    assert.equal(await results.save([success('a', 1, enqueued('one', later))], 'v'), 0);
    await states.announce(announced('a', 'two'));
    assert.equal(await states.status('a'), 'queued');
    assert.equal(await results.save([success('a', 2, enqueued('two', later + 1))], 'v'), 1);
    assert.equal((await results.get('a'))?.outputs[0]?.data[0], 2);
    assert.equal(await results.save([success('a', 1, enqueued('one', later))], 'v'), 0);
  });

  test('a second cancellation leaves cancelled what the first one cancelled, though the clock of SQS is ahead', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    await states.cancel('a');
    await states.announce(announced('a', 'two'));
    await states.cancel('a');
    const later = Date.now() + HOUR_MS;
    assert.equal(await results.save([success('a', 1, enqueued('one', later))], 'v'), 0);
    assert.equal(await results.save([success('a', 2, enqueued('two', later + 1))], 'v'), 0);
    await assert.rejects(results.get('a', { identity: 'one' }), { code: 'cancelled' });
    await assert.rejects(results.get('a', { identity: 'two' }), { code: 'cancelled' });
  });

  test('what is announced after a cancellation gets its result, though the clock of SQS is behind', async (t) => {
    const { results, states } = at(t).open();
    await states.announce(announced('a', 'one'));
    await states.cancel('a');
    await states.announce(announced('a', 'two'));
    assert.equal(await results.save([success('a', 2, enqueued('two', Date.now() - HOUR_MS))], 'v'), 1);
    assert.deepEqual([await outcomeOf(results, 'a'), await states.status('a')], [2, 'succeeded']);
  });

  test('what was cancelled stays so when a record that the cancellation does not know takes its place', async (t) => {
    const { results, states } = at(t).open();
    const later = Date.now() + HOUR_MS;
    for (const replaced of ['saved', 'taken'] as const) {
      const uri = `a ${replaced}`;
      await states.announce(announced(uri, 'one'));
      await states.cancel(uri);
      assert.equal(await results.save([success(uri, 2, enqueued('unknown', later))], 'v'), 1);
      if (replaced === 'taken') await results.take(uri);
      assert.equal(await results.save([success(uri, 1, enqueued('one', later + 1))], 'v'), 0);
      assert.equal(await results.get(uri, { identity: 'one' }), undefined);
    }
  });

  test('all that are announced stay cancelled while others hear that they were', async (t) => {
    const { results, states } = at(t).open();
    const later = Date.now() + HOUR_MS;
    const known = Array.from({ length: 7 }, (_, i) => `known-${i}`);
    for (const identity of known) await states.announce(announced('a', identity));
    await states.cancel('a');
    for (const identity of ['x', 'y', 'z']) await results.save([success('a', 1, enqueued(identity, 1))], 'v');
    const again = [...known, 'x'].map((identity) => success('a', 1, enqueued(identity, later)));
    assert.equal(await results.save(again, 'v'), 0);
    for (const identity of [...known, 'x'])
      await assert.rejects(results.get('a', { identity }), { code: 'cancelled' });
  });

  test('a record that was not announced hears that it was cancelled when it has run', async (t) => {
    const { results, states } = at(t).open();
    await results.save([success('a', 1, one)], 'v');
    await results.take('a');
    await states.announce(announced('a', 'three'));
    await states.cancel('a');
    await results.save([success('a', 2, enqueued('two', 2)), success('a', 1, one)], 'v');
    await assert.rejects(results.get('a', { identity: 'two' }), { code: 'cancelled' });
    assert.equal(await results.get('a', { identity: 'one' }), undefined, 'it had its result before');
  });

  test('a cancellation comes after everything before it, even if the clocks disagree', async (t) => {
    const place = at(t);
    const { results } = place.open();
    /** Cancels a uri with a result that was sent at `newest`; which later enqueues are not cancelled. */
    const notCancelled = async (uri: string, newest: number, latest: number, sentAt: readonly number[]) => {
      const { states } = place.open({ latestOrder: () => latest });
      await results.save([success(uri, 1, enqueued('a', newest))], 'v');
      await states.announce(announced(uri, 'z'));
      assert.equal(await states.cancel(uri), true);
      const saved: number[] = [];
      for (const ms of sentAt)
        saved.push(await results.save([success(uri, ms, enqueued(`zz-${ms}`, ms))], 'v'));
      return sentAt.filter((_, i) => saved[i] === 1);
    };
    const far = 9_000_000_000_000;
    assert.deepEqual(await notCancelled('a', far + 9, far + 5, [far + 5, far + 9, far + 10]), [far + 10]);
    assert.deepEqual(await notCancelled('b', far + 3, far + 5, [far + 3, far + 5, far + 6]), [far + 6]);
    const [before, after] = [Date.now() - HOUR_MS, Date.now() + HOUR_MS];
    assert.deepEqual(await notCancelled('c', 3, 5, [6, before, after]), [after]);
  });

  test('a cancellation drops the results of earlier enqueues', async (t) => {
    const { results, states } = at(t).open();
    await results.save([success('a', 1, one)], 'v');
    await states.announce(announced('a', 'two'));
    assert.equal(await states.cancel('a'), true);
    assert.equal(await results.get('a', { identity: 'one' }), undefined);
    assert.equal(await states.status('a', { identity: 'one' }), 'unknown');
    assert.deepEqual(await drained(results), ['a cancelled']);
    assert.equal(await outcomeOf(results, 'a'), 'cancelled');
  });

  test('it is too late to cancel what was taken, and nothing is announced', async (t) => {
    const place = at(t);
    const { results, states } = place.open();
    await results.save([success('a', 1, one), failure('b', 'bad_input', one)], 'v');
    await results.take('a');
    await assert.rejects(results.take('b'), { code: 'bad_input' });
    const waiting = place.open().results.getWithin('a', 300);
    assert.deepEqual([await states.cancel('a'), await states.cancel('b')], [false, false]);
    assert.equal(await waiting, undefined);
    assert.deepEqual([await outcomeOf(results, 'a'), await outcomeOf(results, 'b')], [undefined, undefined]);
    assert.equal(await results.takePage(10), undefined);
  });

  test('it is too late to cancel what has a result, and the result stays', async (t) => {
    const { results, states } = at(t).open();
    await results.save([success('a', 1), failure('b')], 'v');
    assert.deepEqual([await states.cancel('a'), await states.cancel('b')], [false, false]);
    assert.ok(await results.get('a'));
    assert.deepEqual([await states.status('a'), await states.status('b')], ['succeeded', 'failed']);
  });

  test('a cancelled record is dequeued once, by one of two', async (t) => {
    const place = at(t);
    const [first, second] = [place.open(), place.open()];
    const uris = Array.from({ length: 30 }, (_, i) => `uri-${i}`);
    await Promise.all(uris.map((uri) => first.states.cancel(uri)));
    await first.results.save([success('last', 1)], 'v');
    const drain = async (results: Results) => {
      const seen: string[] = [];
      for await (const { uri } of results.drain()) seen.push(uri);
      return seen;
    };
    // Both connections stand, so that both look before either takes anything.
    await second.results.ping();
    const [some, others] = await Promise.all([drain(first.results), drain(second.results)]);
    assert.deepEqual([...some, ...others].sort(), [...uris, 'last'].sort());
  });

  test('who breaks off a drain leaves a cancelled record for the next one, once', async (t) => {
    const { results, states } = at(t).open();
    await results.save([success('a', 1)], 'v');
    await nextMs();
    await Promise.all(['b', 'c'].map((uri) => states.cancel(uri)));
    const drainSome = async (count: number) => {
      const seen: string[] = [];
      for await (const dequeued of results.drain()) if (seen.push(nameOf(dequeued)) === count) break;
      return seen;
    };
    assert.deepEqual(await drainSome(1), ['a 1']);
    const [next = ''] = await drainSome(1);
    assert.deepEqual([next, ...(await drainSome(9))].sort(), ['b cancelled', 'c cancelled']);
    assert.deepEqual(await drainSome(9), []);
  });
}
