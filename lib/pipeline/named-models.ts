/** Further models of a job, beside its own: each is chosen by its name, and opened when it is first asked for. */
import { quoteName, quoteNames } from '../codecs/quote.ts';
import { ServingError } from '../contract/errors.ts';
import { suggest } from '../contract/suggest.ts';
import type { Model } from '../contract/values.ts';
import type { Observers } from './observer.ts';

export interface NamedModel {
  readonly model: Model;
  /** Told of what it answers. */
  readonly observers: Observers;
  /** Counts of its inferences. */
  readonly statistics: { of(version: string, name: string): object };
}

export interface ListedModel {
  readonly name: string;
  /** The version that is open; undefined while it is closed. */
  readonly version: string | undefined;
  /** Why it did not open, until it is tried again. */
  readonly error: ServingError | undefined;
}

export interface NamedModels {
  /**
   * Opens nothing.
   * @param since a name that is not known is looked for again unless that was done since then, in ms of the wall clock. Default: some
   * seconds ago
   * @throws not_found, model_unavailable where the names cannot be listed
   */
  find(name: string, since?: number): Promise<NamedModel>;
  /** In the order of their names. @throws model_unavailable */
  list(): Promise<readonly ListedModel[]>;
}

/** @param names of the further models; the job's own is the first to be meant */
export function unknownModel(name: string, job: string, names: readonly string[] = []): ServingError {
  return new ServingError('not_found', `no model ${quoteName(name)}; ${meantModel(name, job, names)}`);
}

/** The advice for an unknown name, as a part of a sentence. */
export function meantModel(name: string, job: string, names: readonly string[]): string {
  if (names.length === 0) return `the model of this job is ${quoteName(job)}`;
  const meant = suggest(name, [job, ...names]);
  return meant === undefined
    ? `the models of this job are ${quoteNames([job, ...names])}`
    : `did you mean ${quoteName(meant)}?`;
}

const MB = 1024 * 1024;

/** The memory of a model against the budget of all, in words. */
export function tooLarge(name: string, bytes: number, budgetBytes: number): string {
  return `model ${name} needs ${Math.ceil(bytes / MB)} MB of memory, and models.memoryMB gives ${Math.floor(budgetBytes / MB)} MB to all further models; set it higher, or use a smaller model`;
}
