/**
 * Watches a job: a message that comes again after some seconds looks how far it is, ends it at too many errors, and notices when all
 * rows have answers. All of it is read from names of objects.
 */

import { badRequest, ServingError } from '../contract/errors.ts';
import { type Begun, DRY_ROWS } from './begin.ts';
import { covered, path, type StoredPart } from './cover.ts';
import { WINDOW_SECONDS } from './openai/batch.ts';
import { countProgress } from './progress.ts';
import { errorLimit, type JobKeys, type JobRequest, keysOf, type Progress } from './request.ts';
import { type JobDeps, type Message, readJson, requestOf, type WatchMessage } from './store.ts';

/** Seconds between two looks, the longer a job runs. */
const FIRST_SECONDS = 1;
const MOST_SECONDS = 20;

/** The parts of a job in order, and what they have together. */
export interface Whole extends Progress {
  readonly total: number;
  readonly pieces: readonly (readonly [name: string, bytes: number])[];
  readonly answeredAt: string;
}

/** How far a job is; `turn` is that of the next look. */
interface KeptProgress extends Progress {
  readonly turn: number;
  readonly atMs: number;
}

/** @returns the next message. @throws a ServingError that ends the job */
export async function watch(
  { id, turn }: WatchMessage,
  deps: JobDeps,
  attempts: number,
): Promise<{ readonly message: Message; readonly delaySeconds: number } | undefined> {
  const { store, job } = deps;
  const keys = keysOf(job, id);
  if ((await store.text(keys.summary)) !== undefined) return undefined;
  const kept = await readJson<KeptProgress>(store, keys.progress);
  const expected = kept?.turn ?? 0;
  // Another chain of these messages is further.
  if (turn < expected - 1) return undefined;
  // It may have been followed by the next one already, which a later delivery knows.
  if (turn === expected - 1 && attempts === 1)
    throw new ServingError('queue_unavailable', 'the next look is under way');
  const begun = await readJson<Begun>(store, keys.begun);
  if (!begun) return { message: { do: 'watch', id, turn }, delaySeconds: FIRST_SECONDS };
  const request = await requestOf(store, keys);
  const { progress, whole } = await look(keys, begun, request, deps);
  const { batch } = request;
  if (batch && !whole && deps.now() >= (batch.createdAt + WINDOW_SECONDS) * 1000)
    await store.putNew(keys.expired, JSON.stringify({ atMs: deps.now() }));
  const far: KeptProgress = { ...progress, turn: turn + 1, atMs: deps.now() };
  await store.put(keys.progress, JSON.stringify(far));
  assertErrors(progress, request);
  if (whole) {
    await store.putNew(keys.whole, JSON.stringify(whole));
    return { message: { do: 'merge', id, etags: [] }, delaySeconds: 0 };
  }
  const delaySeconds = Math.min(MOST_SECONDS, FIRST_SECONDS + Math.floor(turn / 10));
  return { message: { do: 'watch', id, turn: turn + 1 }, delaySeconds };
}

/** @throws bad_request */
function assertErrors({ total, rows, errors }: Progress, { maxErrors }: JobRequest): void {
  if (maxErrors === undefined) return;
  // A share is one of all rows, which have to be counted first.
  if (total === undefined && maxErrors.includes('%')) return;
  if (errors > errorLimit(maxErrors, total ?? 0))
    throw badRequest(`${errors} of ${rows} rows are errors, more than ${maxErrors}`);
}

async function look(keys: JobKeys, begun: Begun, { dryRun }: JobRequest, deps: JobDeps) {
  const { progress, parts, ends } = await countProgress(keys, begun, deps);
  const { total } = progress;
  const whole = total === undefined ? undefined : wholeOf(parts, ends, { ...progress, total }, dryRun);
  if (!whole) return { progress, whole };
  return { progress, whole: { ...whole, answeredAt: new Date(deps.now()).toISOString() } };
}

/** Undefined while parts are missing. */
function wholeOf(
  parts: readonly StoredPart[],
  ends: ReadonlyMap<number, number>,
  progress: Progress & { readonly total: number },
  dryRun = false,
): Omit<Whole, 'answeredAt'> | undefined {
  const byUnit = Map.groupBy(parts, ({ unit }) => unit);
  const all: StoredPart[] = [];
  for (let unit = 0; unit < (dryRun ? Math.min(1, ends.size) : ends.size); unit++) {
    const rows = dryRun ? Math.min(DRY_ROWS, ends.get(unit) ?? 0) : (ends.get(unit) ?? 0);
    const found = path(byUnit.get(unit) ?? [], rows);
    if (!found) return undefined;
    all.push(...found);
  }
  const pieces = all.map(({ name, bytes }) => [name, bytes] as const);
  return { ...progress, ...covered(all), ms: progress.ms, pieces };
}
