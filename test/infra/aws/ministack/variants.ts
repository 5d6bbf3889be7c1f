/** The kinds of Redis that walk.ts deploys: those whose functions are in no VPC, which MiniStack could not judge. */
import { recordOf, type Template, textOf } from '../../../../infra/doctor/template.ts';
import type { TestRedis } from '../redis.ts';
import type { MiniStack } from './ministack.ts';

export interface Walked {
  readonly name: string;
  /** True if its Redis is in cluster mode. */
  readonly isCluster?: true;
  /** Parameters of the update. */
  readonly update: Readonly<Record<string, string>>;
  /** @param redis its host and port */
  parameters(redis: string): Readonly<Record<string, string>>;
  /** Before there is a stack. */
  prepare(redis: TestRedis, account: MiniStack): Promise<void>;
  /** Makes the users that the Redis of the stack would have by itself. */
  admit?(redis: TestRedis, template: Template): Promise<void>;
}

const PASSWORD = 'a/secret+of=redis';
const PARAMETER = '/my-job/redis';
const UPDATE = { logDays: '30', requestsPerSecond: '50', respondAsync: 'on' };

export const WALKED: readonly Walked[] = [
  {
    name: 'url',
    update: UPDATE,
    parameters: (redis) => ({ redis: 'url', redisUrl: `rediss://app@${redis}`, redisPassword: PARAMETER }),
    prepare: async (redis, account) => {
      await redis.allow('app', `>${PASSWORD}`, '~*', '&*', '+@all');
      await account.ask('ssm', 'AmazonSSM.PutParameter', {
        Name: PARAMETER,
        Value: PASSWORD,
        Type: 'SecureString',
      });
    },
  },
  {
    name: 'public',
    isCluster: true,
    update: { ...UPDATE, redisMaxGB: '2' },
    parameters: () => ({ redis: 'public' }),
    prepare: async () => undefined,
    // This Redis can check no signature of IAM, so it takes any password of the user; what the user may do is real.
    admit: async (redis, { Resources }) => {
      const { UserName, AccessString } = recordOf(Resources['RedisUser']?.Properties);
      await redis.allow(textOf(UserName), ...textOf(AccessString).split(' '), 'nopass');
    },
  },
];
