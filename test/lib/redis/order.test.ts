/** The order of enqueues, and lists of them: in Lua as in TypeScript. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readScript } from '../../../infra/build/lua.ts';
import { type Enqueue, isLater } from '../../../lib/contract/enqueue.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { parseIdempotencyRecord, serializeOrder } from '../../../lib/results/order.ts';
import { enqueued } from '../../support/enqueue.ts';
import fc from '../../support/fast-check.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';

const ORDER = readScript('includes/order.lua');
const IDENTITIES = readScript('includes/identities.lua');
const RUNS = { seed: 20_261_122, numRuns: 200 } as const;
const enqueue = fc.record({
  identity: fc.constantFrom('a', 'B', 'a1', 'b', '1', 'a-', 'a.', '_', 'aa'),
  sentAt: fc.constantFrom(0, 1, 2, 1_790_000_000_000),
  replays: fc.nat(2),
});

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: of two enqueues Lua finds the same one later as TypeScript does, and at most one`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    t.after(() => connection.close());
    const later = (one: Enqueue, other: Enqueue) =>
      connection.use(
        (redis) =>
          redis.eval(
            `${ORDER}\nreturn isLater(ARGV[1], ARGV[2]) and 1 or 0`,
            0,
            serializeOrder(one),
            serializeOrder(other),
          ),
        false,
      );
    await fc.assert(
      fc.asyncProperty(enqueue, enqueue, async (one, other) => {
        assert.deepEqual(parseIdempotencyRecord(serializeOrder(one)), { latest: { ...one }, settled: [] });
        assert.equal(await later(one, other), isLater(one, other) ? 1 : 0);
        assert.ok(!(isLater(one, other) && isLater(other, one)));
      }),
      RUNS,
    );
    const tie = enqueued('a', 1);
    assert.deepEqual([await later(enqueued('b', 1), tie), await later(enqueued('aa', 1), tie)], [1, 1]);
    assert.equal(await later(enqueued('a', 1, 1), tie), 1);
  });

  test(`${kind}: an idempotency record names fourteen enqueues before its own, of any length, each once`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    t.after(() => connection.close());
    const run = (body: string, ...values: string[]) =>
      connection.use((redis) => redis.eval(`${ORDER}\n${body}`, 0, ...values), false);
    const after = async (order: string, record: string) =>
      String(await run('return recordAfter(ARGV[1], ARGV[2])', order, record));
    const isSettled = (record: string, identity: string) =>
      run('return isSettled(ARGV[1], ARGV[2]) and 1 or 0', record, identity);
    assert.equal(await run('return recordAfter(ARGV[1], false)', '1 a 2'), '1 a 2');
    assert.equal(await after('2 b 1', '1 a 3'), '2 b,a 1');
    assert.equal(await after('3 b', '2 b,c,a 1'), '3 b,c,a', 'an enqueue is not before itself');
    assert.equal(await after('3 d', '2 ~,c,a'), '3 d,c,a', 'nor is a cancellation an enqueue');
    assert.equal(await run('return withSettled(ARGV[1], ARGV[2])', '2 ~,c,a 1', 'b a'), '2 ~,b,a,c 1');
    assert.equal(await run('return withSettled(ARGV[1], ARGV[2])', 'no record', 'b'), 'no record');
    assert.deepEqual([await isSettled('1 a,b1', 'b'), await isSettled('1 a,b1', 'b1')], [0, 1]);
    assert.deepEqual([await isSettled('1 a', 'a'), await isSettled('1 a,b 2', '')], [0, 0]);
    const identities = Array.from({ length: 17 }, (_, i) => `${i}`.padStart(64, 'x'));
    let record = '1790000000000 first';
    for (const identity of identities) record = await after(`1790000000001 ${identity} 12`, record);
    const [latest, ...settled] = identities.toReversed();
    assert.deepEqual(parseIdempotencyRecord(record), {
      latest: { identity: latest, sentAt: 1_790_000_000_001, replays: 12 },
      settled: settled.slice(0, 14),
    });
    assert.equal(record.length, 13 + 1 + 15 * 65 - 1 + 3);
  });

  test(`${kind}: lists keep whole identities, and the newest seven`, async (t) => {
    const connection = new RedisConnection(await redisUrl(t, preferEmbedded), PATIENT);
    t.after(() => connection.close());
    const run = (body: string, ...values: string[]) =>
      connection.use((redis) => redis.eval(`${IDENTITIES}\n${body}`, 0, ...values), false);
    assert.equal(await run('return has(ARGV[1], ARGV[2]) and 1 or 0', 'a12 b', 'a1'), 0);
    assert.equal(await run('return has(ARGV[1], ARGV[2]) and 1 or 0', 'a12 b', 'b'), 1);
    assert.equal(await run('return without(ARGV[1], ARGV[2])', 'a b a1', 'a'), 'b a1');
    assert.equal(await run('return withFirst(ARGV[1], ARGV[2])', '1 2 3 4 5 6 7', '3'), '3 1 2 4 5 6 7');
    assert.equal(await run('return withFirst(ARGV[1], ARGV[2])', '1 2 3 4 5 6 7', '8'), '8 1 2 3 4 5 6');
  });
}
