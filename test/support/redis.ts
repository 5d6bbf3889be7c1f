/** Starts a Redis for a test and returns its url; it ends after the test. */
import type { TestContext } from 'node:test';
import { startRedis } from '../../local/redis/start.ts';
import { temporaryFolder } from './runner.ts';

export async function redisUrl(t: TestContext, preferEmbedded = false): Promise<string> {
  const redis = await startRedis({
    dataDir: await temporaryFolder(t),
    port: 0,
    preferEmbedded,
    log: () => undefined,
  });
  t.after(() => redis.close());
  return redis.url;
}
