/** Opens the runner of a deployed job: its model, or its worker, whose code no other job loads; and finds its further models. */
import type { Model } from '../contract/values.ts';
import type { NamedModels } from '../pipeline/named-models.ts';
import { readyModel } from './model.ts';
import type { Scope } from './scope.ts';

export async function readyRunner(scope: Scope): Promise<Model> {
  if (scope.environment.job.worker.class === undefined) return scope.get(readyModel);
  const { readyWorker } = await import('./deployed-worker.ts');
  return scope.get(readyWorker);
}

/** Further models of the job, whose code is loaded at the first record that names one. A worker has none. */
export function furtherModels(scope: Scope): (() => Promise<NamedModels>) | undefined {
  if (scope.environment.job.worker.class !== undefined) return undefined;
  return async () => scope.get((await import('./named.ts')).namedModels);
}
