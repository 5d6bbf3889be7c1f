/**
 * In: a folder. Out: a Redis, in a process that is not the one being measured.
 * Trap: the embedded server would otherwise share the event loop of its client, and its work would count as ours.
 */
import { Redis } from 'ioredis';
import { type LocalRedis, startRedis } from '../../local/redis/start.ts';
import { serveParent } from './child.ts';

export interface RunningRedis {
  readonly url: string;
  readonly kind: 'redis-server' | 'embedded';
  readonly version: string;
}

export interface RedisQuestion {
  readonly dataDir: string;
}

/** The local stack's server writes a log of every command, which costs as much as the commands; ElastiCache has none. */
async function withoutLog(url: string): Promise<void> {
  const client = new Redis(url);
  await client.config('SET', 'appendonly', 'no');
  client.disconnect();
}

if (process.send) {
  let redis: LocalRedis | undefined;
  serveParent(
    async (question): Promise<RunningRedis> => {
      const { dataDir } = question as RedisQuestion;
      redis = await startRedis({ dataDir, port: 0, log: (message) => console.error(message) });
      if (redis.kind === 'redis-server') await withoutLog(redis.url);
      return { url: redis.url, kind: redis.kind, version: redis.version };
    },
    async () => redis?.close(),
  );
}
