/**
 * Looks at the versions on trial, once a minute: asks a canary its golden requests where it will serve, judges it by what it has
 * answered, and ends it. The end is written only if the pointer is still the one that was looked at.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { trialName, trialSums } from '../../lib/metrics/trial.ts';
import type { ModelPointer } from '../../lib/registry/download.ts';
import {
  type CurrentModel,
  type RunningCanary,
  readCurrent,
  type Shadow,
} from '../../lib/registry/pointer.ts';
import { endCanary } from '../../lib/registry/trial.ts';
import {
  type CanaryReport,
  type Room,
  readTrialReport,
  type ShadowReport,
  type TrialReport,
  writeTrialReport,
} from '../../lib/registry/trial-report.ts';
import { type ModelPlace, readVersion, withVersionCopy } from '../../lib/registry/version-copy.ts';
import type { Sums } from '../../lib/results/store.ts';
import { endedEnvironments, judge, unended } from './judge.ts';
import { askShadow, type ShadowParts } from './shadow.ts';

export interface WatchParts extends ModelPlace, ShadowParts {
  /** The name of a further model. Default: the job's own. */
  readonly model?: string | undefined;
  readonly counts: Pick<Sums, 'read'>;
  /**
   * Opens a version, whose files are in the directory, and asks it its golden requests.
   * @returns how many there are. @throws what says why the version cannot serve
   */
  readonly askGolden: (directory: string, version: ModelPointer) => Promise<number>;
  readonly room: () => Promise<Room>;
  readonly isCapturing: boolean;
  /** Told that a canary was rolled back. */
  readonly onRolledBack?: ((version: string, reason: string) => void) | undefined;
  /** In which a look ends, in ms, where the next one may begin before. 0 where one follows the other. */
  readonly lookMs: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Attempts to open the canary that may end without an answer. */
const MOST_ATTEMPTS = 2;

/** @returns undefined where nothing is on trial. @throws model_unavailable, results_unavailable */
export async function watchTrials(parts: WatchParts): Promise<TrialReport | undefined> {
  const { s3, location, now } = parts;
  const current = await readCurrent(s3, location);
  const { canary, shadow } = current;
  const before = await readTrialReport(s3, location);
  const isOver = before?.canary?.version !== canary?.version || before?.shadow?.version !== shadow?.version;
  if (!canary && !shadow) {
    // Written so that `model push` knows that somebody looks.
    if (!before?.hasFurther || isOver || now() - Date.parse(before.at) > HOUR_MS) await write(parts, {});
    return undefined;
  }
  const known = { canary: sameTrial(before?.canary, canary), shadow: sameTrial(before?.shadow, shadow) };
  // Another look asks it now, or was ended while it did: asked by both, it would use up its attempts.
  if (before && known.canary?.golden === 'asking' && parts.now() - Date.parse(before.at) < parts.lookMs)
    return before;
  const report = canary && (await lookAt(canary, known, parts));
  const keep = (asking: ShadowReport) => write(parts, { canary: report, shadow: asking });
  const asked = shadow && (await askShadow(shadow, known.shadow, parts, keep));
  const written = await write(parts, { canary: report, shadow: asked });
  if (report?.verdict === 'roll back') await end(current, report.reason, written.at, parts);
  return written;
}

/** The report of this trial, not of one before. */
export function sameTrial<R extends CanaryReport | ShadowReport>(
  report: R | undefined,
  trial: Shadow | undefined,
): R | undefined {
  return trial && report?.version === trial.version && report.since === trial.since ? report : undefined;
}

async function write(
  { s3, location, room, isCapturing, now }: WatchParts,
  found: Pick<TrialReport, 'canary' | 'shadow'>,
): Promise<TrialReport> {
  const at = new Date(now()).toISOString();
  const report = { at, room: await room(), isCapturing, hasFurther: true, ...found } as const;
  await writeTrialReport(s3, location, report);
  return report;
}

/** The reports of the look before. */
type Known = Pick<TrialReport, 'canary' | 'shadow'>;

async function lookAt(canary: RunningCanary, known: Known, parts: WatchParts): Promise<CanaryReport> {
  const { version, since } = canary;
  const before = known.canary;
  const tried = await tryOut(canary, known, parts);
  const common = { version, since, looks: before?.looks ?? 0, unended: 0, ...tried };
  if (tried.problem !== undefined) return { ...common, verdict: 'roll back', reason: tried.problem };
  if (parts.now() - Date.parse(since) > DAY_MS)
    return { ...common, verdict: 'roll back', reason: 'it was not promoted within 24 hours' };
  const sums = trialSums(await parts.counts.read(trialName(canary, parts.model)));
  const ended = endedEnvironments(sums, before?.unended ?? 0);
  const found =
    ended === undefined ? judge(sums, common.looks) : ({ verdict: 'roll back', reason: ended } as const);
  return { ...common, unended: unended(sums), ...found };
}

interface Tried extends Pick<CanaryReport, 'golden' | 'attempts'> {
  readonly problem?: string;
}

/** Asks the golden requests once. That it is about to is written before, because opening a model may end this process. */
async function tryOut(
  { version, since }: RunningCanary,
  { canary: before, shadow }: Known,
  parts: WatchParts,
): Promise<Tried> {
  if (before && before.golden !== 'asking') return { golden: before.golden, attempts: before.attempts };
  const attempts = (before?.attempts ?? 0) + 1;
  const asking = { golden: 'asking', attempts } as const;
  if (attempts > MOST_ATTEMPTS) {
    const problem = `the function that tries it ended ${MOST_ATTEMPTS} times while it opened it`;
    return { ...asking, problem };
  }
  const pointer = await readVersion(parts, version);
  return withVersionCopy(parts, pointer, async (directory): Promise<Tried> => {
    const reason = 'it is being tried';
    const canary = {
      version,
      since,
      verdict: 'not enough',
      reason,
      looks: 0,
      unended: 0,
      ...asking,
    } as const;
    await write(parts, { canary, shadow });
    const tried = await parts.askGolden(directory, pointer).then(
      (requests): Tried => ({ golden: requests > 0 ? 'passed' : 'none', attempts }),
      (error: unknown): Tried => ({ ...asking, problem: ServingError.from(error).message }),
    );
    // Where this look fails at its counts, the next one does not take it for one that ended.
    if (tried.problem === undefined)
      await write(parts, { canary: { ...canary, ...tried, reason: 'it was tried' }, shadow });
    return tried;
  });
}

async function end(current: CurrentModel, reason: string, at: string, parts: WatchParts): Promise<void> {
  try {
    const { version } = await endCanary(parts.s3, parts.location, current, { isPromoted: false, reason, at });
    parts.onRolledBack?.(version, reason);
  } catch (error) {
    // Somebody was faster: the next look sees what is there then.
    if (ServingError.from(error).code !== 'conflict') throw error;
  }
}
