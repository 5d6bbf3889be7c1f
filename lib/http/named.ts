/** Answers a request with the further model that it names. Loaded at the first such request. */
import { ServingError } from '../contract/errors.ts';
import { type NamedModel, unknownModel } from '../pipeline/named-models.ts';
import { type InferenceDeps, jobOf } from './open-inference/run.ts';
import type { Named } from './side.ts';

/**
 * The same dependencies with a further model. What is unknown is left to a route that has it in its path, with the names that are
 * known, because its protocol says so in its own way.
 * @throws not_found, model_unavailable
 */
export async function withModel<D extends InferenceDeps>(deps: D, { name, isInPath }: Named): Promise<D> {
  const further = await deps.further?.();
  if (!further) {
    if (isInPath) return deps;
    throw unknownModel(name, jobOf(deps));
  }
  let found: NamedModel;
  try {
    found = await further.find(name);
  } catch (error) {
    if (!isInPath || ServingError.from(error).code !== 'not_found') throw error;
    return { ...deps, names: (await further.list()).map((one) => one.name) };
  }
  return { ...deps, ...found, jobName: name };
}
