/** Opens the runner of a deployed job: its model, or its worker, whose code no other job loads. */
import type { Model } from '../contract/values.ts';
import { readyModel } from './model.ts';
import type { Scope } from './scope.ts';

export async function readyRunner(scope: Scope): Promise<Model> {
  if (scope.environment.job.worker.class === undefined) return scope.get(readyModel);
  const { readyWorker } = await import('./deployed-worker.ts');
  return scope.get(readyWorker);
}
