/** A uri has the outcome of its latest enqueue, however often and in whichever order messages come. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLater } from '../../../../lib/contract/enqueue.ts';
import { serializeResult } from '../../../../lib/results/fields.ts';
import { enqueued } from '../../../support/enqueue.ts';
import fc from '../../../support/fast-check.ts';
import { announced, drained, failure, outcomeOf, sentAt, success } from './records.ts';
import type { At } from './world.ts';

const enqueue = fc.record({
  identity: fc.constantFrom('a', 'B', 'a1', 'b', '1', 'a-', 'a.', '_', 'aa'),
  sentAt: fc.constantFrom(0, 1, 2, 1_790_000_000_000),
  replays: fc.nat(2),
});

export function describeOrder(at: At): void {
  test('a message that comes again after its result was taken gets no second one', async (t) => {
    const { results } = at(t).open();
    assert.equal(await results.save([success('a', 1, sentAt(1)), success('b', 2, sentAt(2))], 'v'), 2);
    assert.ok(await results.take('a'));
    assert.deepEqual(await drained(results), ['b 2']);
    const again = [success('a', 1, sentAt(1)), success('b', 2, sentAt(2)), success('c', 3, sentAt(3))];
    assert.equal(await results.save(again, 'v'), 1);
    assert.equal(await results.save([failure('a', 'max_receives_exceeded', sentAt(1))], ''), 0);
    assert.equal(await results.get('a'), undefined);
    assert.deepEqual(await drained(results), ['c 3']);
  });

  test('a uri is free again once its result was taken', async (t) => {
    const { results } = at(t).open();
    for (const round of [1, 2, 3]) {
      assert.equal(await results.save([success('a', round, sentAt(round))], 'v'), 1);
      assert.equal((await results.take('a'))?.outputs[0]?.data[0], round);
      assert.equal(await results.take('a'), undefined);
    }
  });

  test('a message that comes again while its result is there, and later still, changes nothing', async (t) => {
    const { results } = at(t).open();
    await results.save([success('a', 1, sentAt(1))], 'v');
    assert.equal(await results.save([success('a', 9, sentAt(1))], 'v'), 0);
    assert.equal((await results.take('a'))?.outputs[0]?.data[0], 1);
    assert.equal(await results.save([success('a', 9, sentAt(1))], 'v'), 0);
    assert.equal(await results.save([success('a', 9, sentAt(1))], 'v'), 0);
    assert.equal(await results.get('a'), undefined);
  });

  test('an outcome of an unknown enqueue is earlier than all others', async (t) => {
    const { results } = at(t).open();
    assert.equal(await results.save([success('a', 1)], 'v'), 1);
    assert.equal(await results.save([success('a', 2, sentAt(2))], 'v'), 1);
    assert.equal(await results.save([success('a', 3)], 'v'), 0);
    assert.deepEqual([await outcomeOf(results, 'a'), await outcomeOf(results, 'a', 'm2')], [2, 2]);
  });

  test('of two enqueues of the same ms the bytes of their identities decide, and a replay is later than its enqueue', async (t) => {
    const { results } = at(t).open();
    const later = async (...values: readonly (readonly [string, number])[]) => {
      const saved: number[] = [];
      for (const [i, [identity, replays]] of values.entries())
        saved.push(await results.save([success('a', i, enqueued(identity, 1, replays))], 'v'));
      return saved;
    };
    assert.deepEqual(
      await later(['a', 0], ['B', 0], ['a', 0], ['aa', 0], ['b', 0], ['_', 0]),
      [1, 0, 0, 1, 1, 0],
    );
    assert.deepEqual(await later(['b', 0], ['b', 1], ['b', 1], ['b', 0], ['b', 2]), [0, 1, 0, 0, 1]);
    assert.equal(await outcomeOf(results, 'a', 'b'), 4);
    assert.equal(
      await results.save([success('a', 9, enqueued('0', 2))], 'v'),
      1,
      'a later enqueue is later still',
    );
  });

  test('a retry with the same identity makes no second result, and what was sent before it is earlier', async (t) => {
    const [early, late, between] = [enqueued('one', 1), enqueued('one', 3), enqueued('two', 2)];
    const orders = [
      [success('a', 1, early), success('a', 1, late), success('a', 2, between)],
      [success('b', 1, late), success('b', 2, between), success('b', 1, early)],
      [success('c', 2, between), success('c', 1, early), success('c', 1, late)],
    ];
    const { results } = at(t).open();
    for (const [first = assert.fail(), ...others] of orders) {
      assert.equal(await results.save([first], 'v'), 1);
      assert.equal(await results.save(others, 'v'), first.enqueue?.identity === 'two' ? 1 : 0);
      assert.equal((await results.get(first.uri))?.identity, 'one');
    }
  });

  test('a retry whose enqueue had its outcome before that of a later enqueue makes no second one', async (t) => {
    const { results, states } = at(t).open();
    const [early, late, between] = [enqueued('one', 1), enqueued('one', 3), enqueued('two', 2)];
    for (const one of [early, between]) assert.equal(await results.save([success('a', 1, one)], 'v'), 1);
    assert.equal(await results.save([success('a', 9, late)], 'v'), 0);
    assert.equal((await results.take('a'))?.identity, 'two');
    assert.equal(await results.save([success('a', 9, late)], 'v'), 0, 'though the later one was taken');
    await states.announce(announced('a', 'one'));
    const batch = [success('a', 3, enqueued('three', 4)), success('a', 9, enqueued('one', 5))];
    assert.equal(await results.save(batch, 'v'), 1, 'though it is announced again, and in one batch');
    assert.deepEqual([await outcomeOf(results, 'a'), await states.status('a')], [3, 'succeeded']);
    await states.announce(announced('a', 'four'));
    await states.cancel('a');
    const after = Date.now() + 3_600_000;
    assert.equal(await results.save([success('a', 9, enqueued('three', after))], 'v'), 0);
    assert.equal(await results.save([success('a', 9, enqueued('one', after))], 'v'), 0);
    assert.equal(await results.get('a', { identity: 'one' }), undefined, 'it was not cancelled either');
    assert.equal(await results.save([success('a', 5, enqueued('five', after))], 'v'), 1);
  });

  test('the last fourteen enqueues that had their outcomes before are remembered', async (t) => {
    const { results } = at(t).open();
    for (let i = 1; i <= 16; i++) assert.equal(await results.save([success('a', i, sentAt(i))], 'v'), 1);
    const late = (i: number) => results.save([success('a', i, enqueued(`m${i}`, 99))], 'v');
    assert.deepEqual([await late(2), await late(15), await late(1)], [0, 0, 1]);
  });

  test('a uri ends with the outcome of its latest enqueue, in whichever order they come and in batches of any size', async (t) => {
    const { results } = at(t).open();
    let round = 0;
    const different = fc.uniqueArray(enqueue, {
      minLength: 1,
      maxLength: 6,
      selector: ({ identity }) => identity,
    });
    await fc.assert(
      fc.asyncProperty(different, fc.nat(3), async (enqueues, size) => {
        const uri = `uri ${round++}`;
        const finished = enqueues.map((one) => {
          const data = [one.identity];
          const outputs = [{ name: 'y', dtype: 'string' as const, shape: [1], data }];
          return { uri, enqueue: one, fields: serializeResult({ ok: true, outputs }, undefined) };
        });
        for (let i = 0; i < finished.length; i += size + 1)
          await results.save(finished.slice(i, i + size + 1), 'v');
        const last = enqueues.reduce((latest, one) => (isLater(one, latest) ? one : latest));
        const found = await results.get(uri);
        assert.deepEqual([found?.identity, found?.outputs[0]?.data], [last.identity, [last.identity]]);
      }),
      { seed: 20_261_122, numRuns: 200 },
    );
  });

  test('environments that save the outcomes of one uri at once leave that of its latest enqueue', async (t) => {
    const place = at(t);
    const environments = Array.from({ length: 4 }, () => place.open().results);
    await Promise.all(environments.map((results) => results.ping()));
    const uris = Array.from({ length: 40 }, (_, i) => `r${i}`);
    const written = await Promise.all(
      environments.flatMap((results, n) =>
        uris.map((uri) => results.save([success(uri, n, sentAt(n))], 'v')),
      ),
    );
    const sum = written.reduce((all, one) => all + one, 0);
    assert.ok(sum >= uris.length && sum <= written.length, `${sum}`);
    assert.deepEqual(
      await drained(environments[0] ?? assert.fail()),
      uris.map((uri) => `${uri} 3`).toSorted(),
    );
    const again = await Promise.all(
      environments.map((results) => results.save([success('r0', 9, sentAt(3))], 'v')),
    );
    assert.deepEqual(again, [0, 0, 0, 0]);
  });
}
