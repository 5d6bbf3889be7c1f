/** A Redis in a process of its own: the embedded server would otherwise share the event loop of its client. */
import { Redis } from 'ioredis';
import { type LocalRedis, startRedis } from '../../local/redis/start.ts';
import { serveParent } from './child.ts';

export interface RunningRedis {
  readonly url: string;
  readonly kind: 'redis-server' | 'embedded';
}

/** The local stack's log of every command costs as much as the commands; ElastiCache keeps no such log. */
export async function withoutLog(url: string): Promise<Redis> {
  const client = new Redis(url);
  await client.config('SET', 'appendonly', 'no');
  return client;
}

let redis: LocalRedis | undefined;

const methods = {
  async start(dataDir: string): Promise<RunningRedis> {
    redis = await startRedis({ dataDir, port: 0, log: (message) => console.error(message) });
    if (redis.kind === 'redis-server') (await withoutLog(redis.url)).disconnect();
    return { url: redis.url, kind: redis.kind };
  },
};

export type RedisProcess = typeof methods;

if (import.meta.main) serveParent(methods, async () => redis?.close());
