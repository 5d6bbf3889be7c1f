/**
 * In: the records of a batch that have their outcome. Out: their results in Redis.
 * Trap: a key that holds something else takes no result; its message comes again, and its neighbours are saved.
 */
import { logError } from '../contract/log.ts';
import type { Timers } from '../metrics/timers.ts';
import type { Filter } from '../pipeline/postprocess.ts';
import type { FinishedRecord } from '../pipeline/records.ts';
import { toFields } from './result-fields.ts';
import type { ResultStore } from './results.ts';

export interface SaveSettings {
  readonly filter: Filter | undefined;
  /** Version of the model. */
  readonly model: string;
  /** Saved in the same round trip. */
  readonly timers: Timers;
}

/** @returns ids of messages whose results could not be saved. @throws results_unavailable */
export async function saveFinished(
  results: Pick<ResultStore, 'save'>,
  finished: readonly FinishedRecord[],
  { filter, model, timers }: SaveSettings,
): Promise<string[]> {
  const blocked = new Set<string>();
  const fields = finished.map(({ id, uri, outcome }) => ({
    uri,
    fields: toFields(outcome, filter),
    message: id,
  }));
  await results.save(fields, model, timers, (uri, error) => {
    blocked.add(uri);
    logError(error);
  });
  return finished.filter(({ uri }) => blocked.has(uri)).map(({ id }) => id);
}
