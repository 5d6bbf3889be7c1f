/**
 * In: a function's environment. Out: what /predictions needs of the queue, of Redis, or of both.
 * Trap: it is deployed twice, and each deployment has one of the two; loading the other is half of a cold start.
 */
import type { Environment } from '../config/environment.ts';
import { ServingError } from '../contract/errors.ts';
import { RecordStates } from '../redis/record-states.ts';
import { liveReporter } from '../redis/reporter.ts';

export async function livePredictions(environment: Environment) {
  const [queueing, redis] = await Promise.all([
    environment.hasQueue ? import('./live-accept.ts') : undefined,
    environment.hasRedis ? import('./live-redis.ts') : undefined,
  ]);
  const accept = once(() => there(queueing, 'CLUSTER_SERVING_QUEUE_URL').liveAccept(environment));
  const opener = () => there(redis, 'CLUSTER_SERVING_REDIS_URL');
  const connection = once(() => opener().liveConnection(environment));
  const results = once(() => opener().liveResults(environment, connection()));
  return {
    queue: () => accept().queue(),
    payloads: () => accept().payloads(),
    results,
    reporter: once(() => liveReporter(results())),
    states: once(() => new RecordStates(connection(), { job: environment.job.jobName, now: Date.now })),
  };
}

function there<T>(part: T | undefined, variable: string): T {
  if (part) return part;
  throw new ServingError('bad_config', `the environment variable ${variable} is not set`);
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
