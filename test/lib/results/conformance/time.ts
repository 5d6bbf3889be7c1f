/** Results after their time to live. The tests wait for that together. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EnqueueQuery } from '../../../../lib/contract/enqueue.ts';
import type { RecordStatus } from '../../../../lib/contract/result.ts';
import { enqueued } from '../../../support/enqueue.ts';
import { until } from '../../../support/until.ts';
import { announced, drained, failure, outcomeOf, success } from './records.ts';
import type { At, Environment } from './world.ts';

const ttlSeconds = 2;
const one = enqueued('one', 1);

/** Looks at a status again and again. */
interface Watch {
  readonly status: (uri: string, query?: EnqueueQuery) => Promise<RecordStatus>;
}

/**
 * An expired result is known for as long again as it lived. A test that failed because machine or store slept for about
 * that long proves nothing, and is run again.
 */
async function unlessAsleep(open: () => Environment, run: (watched: Environment & Watch) => Promise<void>) {
  for (let tries = 1; ; tries++) {
    const environment = open();
    let lookedAt = performance.now();
    let longestMs = 0;
    const status: Watch['status'] = async (...given) => {
      const found = await environment.states.status(...given);
      longestMs = Math.max(longestMs, performance.now() - lookedAt);
      lookedAt = performance.now();
      return found;
    };
    try {
      return await run({ ...environment, status });
    } catch (error) {
      if (longestMs < ttlSeconds * 500 || tries === 10) throw error;
    }
  }
}

export function describeTime(at: At): void {
  describe('as time passes', { concurrency: true }, () => {
    test('a record is unknown, queued, then succeeded or failed, expired, and unknown once taken', (t) =>
      unlessAsleep(
        () => at(t).open({ ttlSeconds }),
        async ({ results, states, status }) => {
          const seen: string[] = [];
          const look = async (uri: string) => void seen.push(await status(uri));
          await look('a');
          await states.announce(announced('a', 'one'));
          await look('a');
          await results.save([success('a', 1, one), failure('b')], 'v');
          await look('a');
          await look('b');
          await states.announce(announced('c', 'one'));
          await results.save([success('c', 1, one)], 'v');
          await results.take('c');
          await look('c');
          await until(async () => (await status('a')) !== 'succeeded');
          await look('a');
          assert.deepEqual(seen, ['unknown', 'queued', 'succeeded', 'failed', 'unknown', 'expired']);
          assert.equal(await status('a', { identity: 'one' }), 'expired');
          assert.equal(await status('a', { identity: 'two' }), 'unknown');
          await until(async () => (await status('a')) === 'unknown');
        },
      ));

    test('an enqueue that was sent after all, and had its outcome, is not withdrawn by the error of its sender', (t) =>
      unlessAsleep(
        () => at(t).open({ ttlSeconds }),
        async ({ results, states, status }) => {
          const announcement = await states.announce(announced('a', 'one'));
          await results.save([success('a', 1, one)], 'v');
          await until(async () => (await status('a')) !== 'succeeded');
          await announcement.withdraw();
          assert.equal(await status('a'), 'expired');
        },
      ));

    test('what has expired is neither read, nor taken, nor listed, nor cancelled, and its message makes no other', async (t) => {
      const { results, states } = at(t).open({ ttlSeconds });
      await results.save([success('a', 1, one), failure('b', 'bad_input', one)], 'v');
      await until(async () => (await outcomeOf(results, 'a')) === undefined);
      await until(async () => (await outcomeOf(results, 'b')) === undefined);
      for (const uri of ['a', 'b']) {
        assert.equal(await results.take(uri), undefined);
        assert.equal(await states.cancel(uri), false);
        assert.equal(await results.save([success(uri, 2, one)], 'v'), 0);
        assert.equal(await outcomeOf(results, uri), undefined);
      }
      assert.deepEqual(await drained(results), []);
      assert.equal(await results.save([success('a', 3, enqueued('two', 2))], 'v'), 1);
      assert.deepEqual(await drained(results), ['a 3']);
    });

    test('a cancellation outlives results, and is listed for as long', async (t) => {
      const { results, states } = at(t).open({ ttlSeconds: 1 });
      await states.announce(announced('a', 'one'));
      await states.cancel('a');
      await results.save([success('b', 1, one)], 'v');
      await until(async () => (await outcomeOf(results, 'b')) === undefined);
      assert.deepEqual([await outcomeOf(results, 'a'), await states.status('a')], ['cancelled', 'cancelled']);
      assert.equal(await results.save([success('a', 1, one)], 'v'), 0);
      assert.deepEqual(await drained(results), ['a cancelled']);
      assert.equal(await outcomeOf(results, 'a'), 'cancelled');
    });

    test('what is announced stays queued for longer than a result lives', async (t) => {
      const { results, states } = at(t).open({ ttlSeconds: 1 });
      await states.announce(announced('a', 'one'));
      await states.announce(announced('b', 'one'));
      await results.save([success('b', 1, one)], 'v');
      await until(async () => (await states.status('b')) === 'unknown');
      assert.equal(await states.status('a'), 'queued');
    });

    test('a result that is put back lives as long as it had left', async (t) => {
      const { results } = at(t).open({ ttlSeconds });
      await results.save([success('a', 1, one), success('b', 2, one)], 'v');
      let taken = '';
      for await (const { uri } of results.drain()) {
        taken = uri;
        break;
      }
      const released = taken === 'a' ? 'b' : 'a';
      assert.deepEqual(
        [await outcomeOf(results, taken), typeof (await outcomeOf(results, released))],
        [undefined, 'number'],
      );
      await until(async () => (await outcomeOf(results, released)) === undefined);
      assert.deepEqual(await drained(results), []);
    });
  });
}
