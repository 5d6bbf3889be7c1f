/** Redis is a store of results, both that of this machine and the embedded one. */
import { resultKey } from '../../../lib/contract/names.ts';
import * as store from '../../../lib/redis/store.ts';
import { OPENING, PASS, startRedisProxy } from '../../support/faults/redis/proxy.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { describeStore } from './conformance.ts';

/** What leads to a subscription, and is no command of which an answer would matter. */
const HEARD = new Set([...OPENING, 'SUBSCRIBE', 'UNSUBSCRIBE']);

for (const preferEmbedded of [false, true]) {
  describeStore(preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine', async (hooks) => {
    const redisUrlHere = await redisUrl(hooks, preferEmbedded);
    const connect = (url = redisUrlHere) => store.connect({ redisUrl: url }, PATIENT);
    const connectLossy = async (isLost: () => boolean) => {
      const proxy = await startRedisProxy(hooks, redisUrlHere);
      proxy.onCommand = ({ name }) => (isLost() && !HEARD.has(name) ? { kind: 'cutReply', bytes: 0 } : PASS);
      return connect(proxy.url);
    };
    return {
      store,
      connect: () => connect(),
      connectAway: () => connect('redis://127.0.0.1:1'),
      // A proxy does not read TLS.
      connectLossy: redisUrlHere.startsWith('rediss:') ? undefined : connectLossy,
      block: async (job, uri) => {
        const connection = connect();
        const key = resultKey(job, uri);
        await connection.use((redis) => redis.set(key, 'no hash'), true, key);
        await connection.close();
      },
    };
  });
}
