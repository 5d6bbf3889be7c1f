/** F16 in full: every state that seven steps of the life of a uri reach. LIFE_STEPS=6 takes fewer. */
import { test } from 'node:test';
import { redisUrl } from '../../support/redis.ts';
import { exploreRedis } from '../../support/uri-life/explore.ts';

const STEPS = Number(process.env['LIFE_STEPS'] ?? 7);

test(`F16: in every state that ${STEPS} steps reach, a uri has the outcome of its latest enqueue`, async (t) => {
  const { states, steps } = await exploreRedis(await redisUrl(t), STEPS);
  t.diagnostic(`${states.join(' + ')} states, ${steps} steps`);
});
