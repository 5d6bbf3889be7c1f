/**
 * A redis-server for one test that can be frozen, killed and restarted on its data and port, configured as in the
 * local stack (appendonly). Without an installed redis-server the test is skipped.
 */
import type { TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { type LocalRedis, startRedis } from '../../../../local/redis/start.ts';
import { temporaryFolder } from '../../runner.ts';

export interface RedisProcess {
  readonly url: string;
  readonly port: number;
  /** A client for the test itself; gone after a kill. */
  ask(...command: string[]): Promise<unknown>;
  freeze(): void;
  thaw(): void;
  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<void>;
  /** On the same data and port. */
  restart(): Promise<void>;
}

/** `local`: as the local stack starts it. `everysec` holds writes back while it syncs (embedded-redis/disk-sync.ts). */
export type Fsync = 'local' | 'everysec' | 'always';

export async function redisProcess(
  t: TestContext,
  fsync: Fsync = 'local',
): Promise<RedisProcess | undefined> {
  const dataDir = await temporaryFolder(t);
  const start = async (port: number): Promise<LocalRedis> => {
    const started = await startRedis({ dataDir, port, log: () => undefined });
    if (fsync === 'local') return started;
    const redis = new Redis(started.url);
    await redis.config('SET', 'appendfsync', fsync);
    redis.disconnect();
    return started;
  };
  let server = await start(0);
  t.after(() => server.close());
  if (server.pid === undefined) {
    t.skip('needs an installed redis-server: only a process can be killed');
    return undefined;
  }
  const { url } = server;
  const port = Number(new URL(url).port);
  const signal = (name: NodeJS.Signals) => process.kill(server.pid as number, name);
  return {
    url,
    port,
    ask: async (...[name = '', ...rest]) => {
      const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
      redis.on('error', () => undefined);
      try {
        await redis.connect();
        return await redis.call(name, ...rest);
      } finally {
        redis.disconnect();
      }
    },
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    kill: async () => {
      signal('SIGKILL');
      // Waits for its end; there is nothing left to stop.
      await server.close();
    },
    restart: async () => {
      server = await start(port);
    },
  };
}
