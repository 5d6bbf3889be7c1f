/** F16: the life of a uri, against the real scripts on a real Redis. The long run takes seven steps. */
import { test } from 'node:test';
import { redisUrl } from '../../support/redis.ts';
import { exploreRedis } from '../../support/uri-life/explore.ts';

for (const [kind, preferEmbedded, depth] of [
  ['the Redis of this machine', false, 5],
  ['the embedded Redis', true, 3],
] as const) {
  test(`F16: ${kind}: in every state that ${depth} steps reach, a uri has the outcome of its latest enqueue`, async (t) => {
    const { states, steps } = await exploreRedis(await redisUrl(t, preferEmbedded), depth);
    t.diagnostic(`${states.join(' + ')} states, ${steps} steps`);
  });
}
