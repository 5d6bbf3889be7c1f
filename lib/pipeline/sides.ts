/** Sorts the records of a chunk by what runs them: the model that each names, and of a model the version that serves or a canary. */
import { present } from '../contract/present.ts';
import type { Canary, Model, Runner } from '../contract/values.ts';
import type { Decoded, QueuedRecord } from './decode.ts';

/** The runner that serves, and that of a version that takes a share of the records. */
export interface Runners {
  readonly runner: Runner;
  readonly canary?: (Pick<Canary, 'takes'> & { readonly runner: Runner }) | undefined;
}

export interface Side {
  readonly decoded: Decoded;
  readonly runner: Runner;
}

/** The records of each version: one goes to the same at each delivery. The rest of the chunk goes with the first. */
export function sidesOf(decoded: Decoded, { runner, canary }: Runners): Side[] {
  if (!canary) return [{ decoded, runner }];
  const isTaken = ({ key, uri }: QueuedRecord) => canary.takes(key ?? uri);
  const taken = decoded.records.filter(isTaken);
  if (taken.length === 0) return [{ decoded, runner }];
  const rest = { ...decoded, records: decoded.records.filter((record) => !isTaken(record)) };
  const isAll = isEmpty(rest);
  const side = { decoded: { records: taken, finished: [], returned: [] }, runner: canary.runner };
  return isAll ? [side] : [{ decoded: rest, runner }, side];
}

/**
 * @param job whose own model may be named, too
 * @returns the records of the job's own model with the rest of the chunk, undefined where there is nothing of it; and those of others
 */
export function byModel(decoded: Decoded, job: string | undefined) {
  const named = new Map<string, QueuedRecord[]>();
  const records: QueuedRecord[] = [];
  for (const record of decoded.records) {
    const { model = job } = record.enqueue;
    if (model === job || model === undefined) records.push(record);
    else if (named.has(model)) present(named.get(model), model).push(record);
    else named.set(model, [record]);
  }
  if (named.size === 0) return { own: decoded, named };
  const own = { ...decoded, records };
  return { own: isEmpty(own) ? undefined : own, named };
}

function isEmpty({ records, finished, returned }: Decoded): boolean {
  return records.length === 0 && finished.length === 0 && returned.length === 0;
}

/** Calls `work` with the runner that serves, and that of a canary while there is one. */
export function withRunners<T>(model: Model, work: (runners: Runners) => Promise<T>): Promise<T> {
  const { canary } = model;
  if (!canary) return model.use((runner) => work({ runner }));
  const { takes } = canary;
  return model.use((runner) =>
    canary.model.use((other) => work({ runner, canary: { takes, runner: other } })),
  );
}

/** For an event whose records all name further models: what it reads but cannot run has no version. */
export const NO_MODEL: Model = {
  use: (work) => work({ version: '', run: async () => [], close: async () => undefined }),
};
