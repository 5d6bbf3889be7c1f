/** Somebody waits for a result. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { enqueued } from '../../../support/enqueue.ts';
import { announced, failure, success } from './records.ts';
import type { At } from './world.ts';

const PATIENCE = { timeoutMs: 30_000 } as const;

export function describeWaiting(at: At): void {
  test('wait resolves with a result that comes later, and with one that was there', async (t) => {
    const place = at(t);
    const reader = place.open().results;
    const writer = place.open().results;
    const waiting = reader.wait('late', { timeoutMs: 10_000 });
    await writer.save([success('late', 7)], 'v');
    assert.deepEqual((await waiting).outputs[0]?.data, Float32Array.of(7));
    assert.deepEqual((await reader.wait('late', { timeoutMs: 5_000 })).outputs[0]?.data, Float32Array.of(7));
    assert.ok(await reader.get('late'), 'waiting takes nothing');
  });

  test('every wait for a uri resolves with its result, in any environment', async (t) => {
    const place = at(t);
    const environments = [place.open(), place.open()];
    const waiting = environments.flatMap(({ results }) => [
      results.wait('a', PATIENCE),
      results.wait('a', { ...PATIENCE, identity: 'one' }),
      results.getWithin('a', 30_000),
    ]);
    await place.open().results.save([success('a', 1, enqueued('one', 1))], 'v');
    for (const result of await Promise.all(waiting)) assert.equal(result?.outputs[0]?.data[0], 1);
  });

  test('wait ends with timeout, with the reason of its signal, and with the failure of the record', async (t) => {
    const { results } = at(t).open();
    await assert.rejects(results.wait('never', { timeoutMs: 30 }), { code: 'timeout', uri: 'never' });
    const controller = new AbortController();
    const waiting = results.wait('never', { timeoutMs: 10_000, signal: controller.signal });
    controller.abort(new Error('enough'));
    await assert.rejects(waiting, { message: 'enough' });
    const { signal } = controller;
    await assert.rejects(results.wait('never', { timeoutMs: 10_000, signal }), { message: 'enough' });
    const failing = results.wait('bad', PATIENCE);
    await Promise.all([
      assert.rejects(failing, { code: 'bad_input', uri: 'bad' }),
      results.save([failure('bad')], 'v'),
    ]);
    await assert.rejects(results.wait('bad', PATIENCE), { code: 'bad_input', uri: 'bad' });
    await assert.rejects(results.wait('bad', { timeoutMs: Number.NaN }), { code: 'bad_request' });
  });

  test('with an identity, wait passes over the outcomes of other enqueues', async (t) => {
    const { results } = at(t).open();
    await results.save([failure('a', 'bad_input', enqueued('one', 1))], 'v');
    let hasEnded = false;
    const waiting = results.wait('a', { ...PATIENCE, identity: 'three' }).finally(() => (hasEnded = true));
    await results.save([success('a', 2, enqueued('two', 2))], 'v');
    await delay(50);
    assert.equal(hasEnded, false);
    await results.save([success('a', 3, enqueued('three', 3))], 'v');
    assert.equal((await waiting).identity, 'three');
  });

  test('getWithin is undefined when there is no result in time, and throws what wait throws', async (t) => {
    const { results } = at(t).open();
    assert.equal(await results.getWithin('a', 0), undefined);
    assert.equal(await results.getWithin('a', 30), undefined);
    const signal = AbortSignal.abort(new Error('enough'));
    await assert.rejects(results.getWithin('a', 10_000, { signal }), { message: 'enough' });
    await results.save([success('a', 1, enqueued('one', 1)), failure('b')], 'v');
    for (const timeoutMs of [0, 30_000]) {
      assert.equal((await results.getWithin('a', timeoutMs, { identity: 'one' }))?.identity, 'one');
      await assert.rejects(results.getWithin('b', timeoutMs), { code: 'bad_input', uri: 'b' });
    }
    assert.equal(await results.getWithin('a', 0, { identity: 'two' }), undefined);
    assert.equal(await results.getWithin('a', 30, { identity: 'two' }), undefined);
  });

  test('a waiting client is notified of the cancellation', async (t) => {
    const place = at(t);
    const { results, states } = place.open();
    await states.announce(announced('a', 'one'));
    const refused = Promise.all(
      [{}, { identity: 'one' }].map((query) =>
        assert.rejects(results.wait('a', { ...PATIENCE, ...query }), { code: 'cancelled', uri: 'a' }),
      ),
    );
    await place.open().states.cancel('a');
    await refused;
  });
}
