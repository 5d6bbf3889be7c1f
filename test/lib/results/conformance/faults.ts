/** A store that is away, and one whose answers get lost. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { sendAnnounced } from '../../../../lib/pipeline/submit.ts';
import { enqueued } from '../../../support/enqueue.ts';
import {
  announced,
  drained,
  failedFieldsOf,
  fieldsOf,
  nameOf,
  nextMs,
  outcomeOf,
  sentAt,
  success,
} from './records.ts';
import type { At, Environment } from './world.ts';

const AWAY = { code: 'results_unavailable' } as const;
const record = { uri: 'u', enqueue: enqueued('m1', 1, 1), message: 'the message' };
const delivery = { uri: 'a', attempts: 2, enqueue: enqueued('id') };

interface Lossy extends Environment {
  /** Another environment, which hears every answer. */
  readonly writer: Environment;
  /** Does something of which no answer arrives. */
  readonly unheard: <T>(work: () => Promise<T>) => Promise<T>;
}

export function describeFaults(at: At): void {
  test('a store that is away is results_unavailable, and nothing is sent', async (t) => {
    const { results, states, runs, replacer, connection } = at(t).openAway();
    await connection.open();
    const asked: readonly (() => Promise<unknown>)[] = [
      () => results.save([success('a', 1)], 'v'),
      () => results.get('a'),
      () => results.take('a'),
      () => results.getWithin('a', 0),
      () => drained(results),
      () => results.takePage(10),
      () => results.timers(),
      () => results.metrics(),
      () => results.serving(),
      () => results.lostCaptures(),
      () => results.ping(),
      () => states.announce(announced('a', 'one')),
      () => states.status('a'),
      () => states.cancel('a'),
      () => sendAnnounced(states, [announced('a', 'one')], () => assert.fail('sent')),
      () => runs.read([delivery]),
      () => runs.begin([delivery]),
      () => replacer.outcomes(['a']),
      () => replacer.store(record, fieldsOf(1), ''),
      () => replacer.free(record),
    ];
    for (const ask of asked) await assert.rejects(ask(), AWAY, String(ask));
    await assert.rejects(results.wait('a', { timeoutMs: 200 }), { code: /^(results_unavailable|timeout)$/ });
  });

  test('no outcome depends on marks and counts: a store that is away is not an error of theirs', async (t) => {
    const { states, runs } = at(t).openAway();
    await states.markRunning([{ uri: 'a', enqueue: enqueued('one') }], 60_000);
    await runs.takeBack([delivery]);
  });

  test('a store that is away lets requests pass and says so', async (t) => {
    const errors: unknown[] = [];
    const limiter = at(t)
      .openAway()
      .openLimiter({
        tokensPerSecond: 1,
        acquireTimeoutMs: 1,
        sleep: async () => assert.fail('expected no wait'),
        onError: (error) => errors.push(error),
      });
    for (let i = 0; i < 3; i++) await limiter.acquire();
    assert.deepEqual(
      errors.map((error) => (error as { code?: unknown }).code),
      Array(3).fill('results_unavailable'),
    );
  });

  const testLossy = (title: string, run: (lossy: Lossy) => Promise<void>): void => {
    test(title, async (t: TestContext) => {
      const place = at(t);
      const opened = await place.openLossy();
      if (!opened) return t.skip('the answers of this store cannot be lost');
      const { environment, line } = opened;
      const unheard: Lossy['unheard'] = async (work) => {
        line.isCut = true;
        return work().finally(() => (line.isCut = false));
      };
      await run({ ...environment, writer: place.open(), unheard });
    });
  };

  testLossy(
    'answers that get lost for a while lose no result, neither a page nor a single one',
    async (lossy) => {
      const { results, writer, unheard } = lossy;
      await writer.results.save([success('single', 1, sentAt(0))], 'v');
      await assert.rejects(
        unheard(() => results.take('single')),
        AWAY,
      );
      await assert.rejects(
        unheard(() => results.take('single')),
        AWAY,
      );
      assert.equal((await results.take('single'))?.outputs[0]?.data[0], 1);
      assert.equal(await results.take('single'), undefined);

      await writer.results.save([success('a', 1, sentAt(1)), success('b', 2, sentAt(2))], 'v');
      await assert.rejects(
        unheard(() => drained(results)),
        AWAY,
      );
      await writer.results.save([success('c', 3, sentAt(3))], 'v');
      assert.deepEqual(await drained(results), ['a 1', 'b 2', 'c 3']);
      assert.deepEqual(await drained(results), []);
    },
  );

  testLossy(
    'a take for one enqueue leaves the result of another, also when its answer got lost',
    async (lossy) => {
      const { results, writer, unheard } = lossy;
      await writer.results.save([success('a', 1, sentAt(1))], 'v');
      assert.equal(await results.take('a', { identity: 'm2' }), undefined);
      await assert.rejects(
        unheard(() => results.take('a', { identity: 'm1' })),
        AWAY,
      );
      await writer.results.save([success('a', 2, sentAt(2))], 'v');
      assert.equal((await results.take('a', { identity: 'm2' }))?.outputs[0]?.data[0], 2);
      assert.equal((await results.take('a', { identity: 'm1' }))?.outputs[0]?.data[0], 1);
      assert.equal(await results.take('a'), undefined);
    },
  );

  testLossy('who breaks off a drain without an answer loses nothing of the rest', async (lossy) => {
    const { results, writer, unheard } = lossy;
    for (const n of [1, 2, 3]) {
      await writer.results.save([success(`r${n}`, n, sentAt(n))], 'v');
      await nextMs();
    }
    const drain = results.drain();
    const first = await drain.next();
    assert.equal(first.done === true ? undefined : nameOf(first.value), 'r1 1');
    await unheard(() => drain.return(undefined));
    assert.deepEqual(await drained(results), ['r2 2', 'r3 3']);
  });

  testLossy('saving again what may have been saved writes each outcome once', async (lossy) => {
    const { results, writer, unheard } = lossy;
    const finished = [success('a', 1, sentAt(1)), success('b', 2, sentAt(2))];
    await writer.results.save([success('warm', 0)], 'v');
    await assert.rejects(
      unheard(() => results.save(finished, 'v')),
      AWAY,
    );
    const again = await results.save(finished, 'v');
    assert.ok(again >= 0 && again <= 2, `${again}`);
    assert.deepEqual(await drained(results), ['a 1', 'b 2', 'warm 0']);
    assert.equal(await results.save(finished, 'v'), 0);
  });

  testLossy('what was announced, marked or withdrawn without an answer counts once', async (lossy) => {
    const { states, writer, unheard } = lossy;
    await writer.states.announce(announced('warm', 'up'));
    await assert.rejects(
      unheard(() => states.announce(announced('a', 'one'))),
      AWAY,
    );
    const announcement = await states.announce(announced('a', 'one'));
    await unheard(() => states.markRunning([{ uri: 'a', enqueue: enqueued('one') }], 60_000));
    assert.match(await states.status('a'), /^(queued|running)$/);
    await unheard(() => announcement.withdraw());
    await announcement.withdraw();
    assert.equal(await states.status('a'), 'unknown');
    await assert.rejects(
      unheard(() => states.cancel('a')),
      AWAY,
    );
    assert.equal(await states.cancel('a'), true);
    assert.equal(await writer.states.status('a'), 'cancelled');
  });

  testLossy('replacing again what may have been replaced is safe', async (lossy) => {
    const { results, replacer, writer, unheard } = lossy;
    const fields = failedFieldsOf('max_receives_exceeded');
    await writer.results.save([{ uri: 'u', fields, enqueue: enqueued('m1', 1) }], '');
    await assert.rejects(
      unheard(() => replacer.free(record)),
      AWAY,
    );
    assert.equal(await replacer.free(record), 'replaced');
    await assert.rejects(
      unheard(() => replacer.store(record, fieldsOf(1), 'v')),
      AWAY,
    );
    assert.match(await replacer.store(record, fieldsOf(1), 'v'), /^(replaced|superseded)$/);
    assert.equal(await replacer.store(record, fieldsOf(2), 'v'), 'superseded');
    assert.equal(await outcomeOf(results, 'u'), 1);
  });

  testLossy('a delivery whose count was not heard of counts once', async (lossy) => {
    const { runs, writer, unheard } = lossy;
    await writer.runs.begin([{ ...delivery, uri: 'warm' }]);
    await assert.rejects(
      unheard(() => runs.begin([delivery])),
      AWAY,
    );
    await runs.begin([delivery]);
    assert.deepEqual(await runs.read([delivery]), [1]);
    await unheard(() => runs.takeBack([delivery]));
    await runs.takeBack([delivery]);
    assert.deepEqual(await writer.runs.read([delivery]), [0]);
  });
}
