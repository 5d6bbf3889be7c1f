/**
 * Composes the dependencies of POST /predict. Most jobs do not need their store before the first answer, and ioredis is a
 * tenth of a cold start, so it is loaded for a limit, a budget or a queue, else when the timers are due, a second later.
 */
import { RESULTS_VARIABLE } from '../config/environment.ts';
import { badConfig } from '../contract/errors.ts';
import { leave } from '../contract/under-way.ts';
import type { Model } from '../contract/values.ts';
import type { ReadUpload } from '../http/uploads.ts';
import { parseFilter } from '../pipeline/answer/postprocess.ts';
import { inferences, observers } from './observers.ts';
import type { Scope } from './scope.ts';
import { furtherModels, readyRunner } from './served.ts';
import { startCapture } from './start-capture.ts';

/** @param served opens what runs the records: the job's model or worker, unless the single machine says otherwise */
export async function composePredict(scope: Scope, served: (scope: Scope) => Promise<Model> = readyRunner) {
  const { job, hasQueue, hasResults } = scope.environment;
  // Thrown in INIT rather than when the timers are due.
  if (!hasResults) throw badConfig(`the environment variable ${RESULTS_VARIABLE} is not set`);
  startCapture(scope);
  const limiting = job.http.tokenBucketEnabled ? await import('./limiter.ts') : undefined;
  const limiter = limiting && scope.get(limiting.limiter);
  const budget = scope.own.budget && scope.get(scope.own.budget.budget);
  // While S3 is asked for the model.
  if (budget) leave(budget.open());
  const [queueing, states] = hasQueue
    ? await Promise.all([import('./accept.ts'), import('./states.ts')])
    : [];
  const deps = {
    settings: job,
    jobName: job.jobName,
    further: furtherModels(scope),
    batchSize: job.batchSize,
    accept: queueing &&
      states && { ...scope.get(queueing.accept), announcer: () => scope.get(states.recordStates) },
    filter: parseFilter(job.postProcessing),
    uploads: (...upload: Parameters<ReadUpload>) => {
      budget?.spendObjects(1, 1);
      return import('./s3.ts').then(({ uploads }) => scope.get(uploads)(...upload));
    },
    postProcessing: job.postProcessing,
    limiter: budget ? budget.before(limiter) : limiter,
    observers: scope.get(observers),
    statistics: scope.get(inferences),
  };
  // Last, so that a failure above leaves no open model behind.
  return { ...deps, model: await scope.get(served) };
}
