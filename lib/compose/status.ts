/** Composes the dependencies of the status function, which loads no model. */
import { readPointer } from '../registry/download.ts';
import { observers } from './observers.ts';
import { results } from './results.ts';
import { modelLocation, s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

export async function composeStatus(scope: Scope) {
  const s3 = scope.get(s3Client);
  const location = scope.get(modelLocation);
  const { job } = scope.environment;
  const { budget } = scope.own;
  return {
    settings: job,
    results: scope.get(results),
    versions: () => readPointer(s3, location, job.worker.class),
    observers: scope.get(observers),
    budget: budget && (() => budget.shown(scope)),
  };
}
