/** The order of enqueues, and lists of them: in Lua as in TypeScript. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readScript } from '../../../infra/build/lua.ts';
import { type Enqueue, isLater } from '../../../lib/contract/enqueue.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { parseIdempotencyRecord, serializeOrder } from '../../../lib/redis/order.ts';
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
