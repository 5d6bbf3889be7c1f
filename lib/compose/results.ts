/** Composes the store of results and its connection. The first command connects, so INIT never waits for Redis. */
import type { Environment } from '../config/environment.ts';
import { isClusterUrl, openRedis } from '../redis/cluster/connection.ts';
import type { RedisConnection, SignIn } from '../redis/connection.ts';
import { cachePassword } from '../redis/iam.ts';
import { ResultStore } from '../redis/results.ts';
import { CachedSecret, readParameter } from '../redis/secret.ts';
import type { Scope } from './scope.ts';

export function connection({ environment }: Scope): RedisConnection {
  return openRedis(environment.redisUrl, { signIn: signInOf(environment) });
}

function signInOf(environment: Environment): SignIn | undefined {
  const signIn = environment.redisSignIn;
  if (!signIn) return undefined;
  // The environment is asked each time, because the credentials of a long-lived one may have been renewed.
  const renewed = () => ({ credentials: (environment.redisSignIn ?? signIn).credentials });
  if ('parameter' in signIn) {
    const secret = new CachedSecret(() => readParameter({ ...signIn, ...renewed() }), Date.now);
    return {
      username: signIn.user,
      password: () => secret.get(),
      changedPassword: () => secret.getChanged(),
    };
  }
  // A cache in cluster mode that a deployment creates is serverless.
  const isServerless = isClusterUrl(environment.redisUrl);
  const password = () => cachePassword({ ...signIn, ...renewed(), isServerless }, Date.now());
  return { username: signIn.user, password };
}

export function results(scope: Scope): ResultStore {
  const { job, keyspace } = scope.environment;
  return new ResultStore(scope.get(connection), {
    job: keyspace,
    ttlSeconds: job.resultTtlSeconds,
    retentionSeconds: job.queue.retentionSeconds,
    now: Date.now,
  });
}
