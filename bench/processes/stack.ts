/**
 * In: a job's config, a model and a data folder. Out: the local stack in a process of its own, on the servers' core.
 * Trap: its redis-server inherits the core and would share it with the handlers; it is moved to the other one, where
 * it also is for the peers. And its log of every command is off, as ElastiCache has none.
 */
import { Redis } from 'ioredis';
import type { JobConfig } from '../../lib/config/job.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import { movePid } from '../cores.ts';
import { QUIET } from '../quiet.ts';
import { serveParent } from './child.ts';

export interface StackQuestion {
  readonly job: JobConfig;
  readonly modelDirectory: string;
  readonly dataDir: string;
}

export interface StackAddresses {
  readonly queueUrl: string;
  readonly redisUrl: string;
  readonly redisKind: 'redis-server' | 'embedded';
  readonly endpoint: string;
  readonly region: string;
  /** What another process needs to call it. */
  readonly environment: Readonly<Record<string, string>>;
}

async function settleRedis(url: string): Promise<void> {
  const client = new Redis(url);
  await client.config('SET', 'appendonly', 'no');
  const pid = Number(/process_id:(\d+)/.exec(await client.info('server'))?.[1]);
  client.disconnect();
  if (pid > 0) movePid(pid, 'client');
}

if (process.send) {
  let stack: Stack | undefined;
  serveParent(
    async (asked): Promise<StackAddresses> => {
      const { job, modelDirectory, dataDir } = asked as StackQuestion;
      stack = await startStack({
        jobs: [{ job, modelDirectory }],
        dataDir,
        ports: { http: 0, aws: 0, redis: 0 },
        log: QUIET,
      });
      if (stack.redis.kind === 'redis-server') await settleRedis(stack.redisUrl);
      const { queueUrl, redisUrl, redis, aws } = stack;
      const { url: endpoint, region, environment } = aws;
      return { queueUrl, redisUrl, redisKind: redis.kind, endpoint, region, environment };
    },
    async () => stack?.close(),
  );
}
