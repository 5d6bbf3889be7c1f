/**
 * In: a function's environment. Out: what POST /predict needs.
 * Trap: most jobs ask Redis nothing before their first answer, and ioredis is a tenth of a cold start: it is loaded for
 * a limit or a queue, else when the timers are due, a second later.
 */

import type { Environment } from '../config/environment.ts';
import { ServingError } from '../contract/errors.ts';
import { parseFilter } from '../pipeline/postprocess.ts';
import { RecordStates } from '../redis/record-states.ts';
import { liveReporter } from '../redis/reporter.ts';
import { liveModel } from './live-model.ts';

export async function livePredict(environment: Environment) {
  const { jobName, postProcessing, http } = environment.job;
  // Told in INIT, and not when the timers are due.
  if (!environment.hasRedis)
    throw new ServingError('bad_config', 'the environment variable CLUSTER_SERVING_REDIS_URL is not set');
  let opened: ReturnType<typeof openRedis> | undefined;
  const redis = () => (opened ??= openRedis(environment));
  const asked = environment.hasQueue || http.tokenBucketEnabled ? await redis() : undefined;
  const queueing = environment.hasQueue ? await import('./live-accept.ts') : undefined;
  return {
    jobName,
    accept: queueing && asked && { ...queueing.liveAccept(environment), claims: () => asked.states },
    model: await liveModel(environment),
    filter: parseFilter(postProcessing),
    limiter: asked?.limiter,
    reporter: liveReporter({ save: async (...saving) => (await redis()).results.save(...saving) }),
  };
}

async function openRedis(environment: Environment) {
  const { liveConnection, liveLimiter, liveResults } = await import('./live-redis.ts');
  const connection = liveConnection(environment);
  return {
    limiter: liveLimiter(connection, environment),
    results: liveResults(environment, connection),
    states: new RecordStates(connection, { job: environment.job.jobName, now: Date.now }),
  };
}
