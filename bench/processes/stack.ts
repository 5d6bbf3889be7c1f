/**
 * The local stack in a process of its own, on the servers' core. Its redis-server inherits that core, and is moved to the
 * other one, where it also is for the peers.
 */
import { type Stack, startStack } from '../../local/service/stack.ts';
import { movePid } from '../cores.ts';
import { QUIET } from '../quiet.ts';
import { serveParent } from './child.ts';
import { withoutLog } from './redis.ts';

let stack: Stack | undefined;

const methods = {
  async start({ jobs, dataDir }: Pick<Parameters<typeof startStack>[0], 'jobs' | 'dataDir'>) {
    stack = await startStack({ jobs, dataDir, ports: { http: 0, aws: 0, redis: 0 }, log: QUIET });
    const { queueUrl, redisUrl, redis, aws } = stack;
    if (redis.kind === 'redis-server') {
      const client = await withoutLog(redisUrl);
      const pid = Number(/process_id:(\d+)/.exec(await client.info('server'))?.[1]);
      client.disconnect();
      if (pid > 0) movePid(pid, 'client');
    }
    const { url: endpoint, region, environment } = aws;
    return { queueUrl, redisUrl, redisKind: redis.kind, endpoint, region, environment };
  },
};

export type StackProcess = typeof methods;

if (import.meta.main) serveParent(methods, async () => stack?.close());
