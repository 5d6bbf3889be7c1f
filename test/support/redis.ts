/** Starts a Redis for a test and returns its url; it ends after the test. Also how long a test waits for one. */
import type { TestContext } from 'node:test';
import { startRedis } from '../../local/redis/start.ts';
import { temporaryFolder } from './runner.ts';

/**
 * For connections of tests that are not about timeouts. A function waits a second for Redis and then sends its command
 * again; on a loaded machine the first may have run, and the second finds its result there.
 */
export const PATIENT = { connectTimeoutMs: 60_000, commandTimeoutMs: 60_000 } as const;

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
