/**
 * Looks at the versions on trial, once a minute: asks a canary its golden requests where it will serve, judges it by what it has
 * answered, and ends it. The end is written only if the pointer is still the one that was looked at.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { trialSums } from '../../lib/metrics/trial.ts';
import type { ModelPointer } from '../../lib/registry/download.ts';
import { type CurrentModel, type RunningCanary, readCurrent } from '../../lib/registry/pointer.ts';
import { endCanary } from '../../lib/registry/trial.ts';
import {
  type CanaryReport,
  readTrialReport,
  type TrialReport,
  writeTrialReport,
} from '../../lib/registry/trial-report.ts';
import { type ModelPlace, readVersion, withVersionCopy } from '../../lib/registry/version-copy.ts';
import type { TrialCounts } from '../../lib/results/store.ts';
import { endedEnvironments, judge, unended } from './judge.ts';

export interface WatchParts extends ModelPlace {
  readonly counts: Pick<TrialCounts, 'read'>;
  /**
   * Opens a version, whose files are in the directory, and asks it its golden requests.
   * @returns how many there are. @throws what says why the version cannot serve
   */
  readonly askGolden: (directory: string, version: ModelPointer) => Promise<number>;
  /** Wall clock in ms. */
  readonly now: () => number;
  /** Told that a canary was rolled back. */
  readonly onRolledBack?: ((version: string, reason: string) => void) | undefined;
}

const DAY_MS = 86_400_000;
/** Attempts to open the canary that may end without an answer. */
const MOST_ATTEMPTS = 2;

/** @returns undefined where nothing is on trial. @throws model_unavailable, results_unavailable */
export async function watchTrials(parts: WatchParts): Promise<TrialReport | undefined> {
  const { s3, location, now } = parts;
  const current = await readCurrent(s3, location);
  const { canary } = current;
  if (!canary) return undefined;
  const before = await readTrialReport(s3, location);
  const at = new Date(now()).toISOString();
  const known = before?.canary?.version === canary.version && before.canary.since === canary.since;
  const report = await lookAt(canary, known ? before.canary : undefined, parts);
  const found = { at, canary: report };
  await writeTrialReport(s3, location, found);
  if (report.verdict === 'roll back') await end(current, report.reason, at, parts);
  return found;
}

async function lookAt(
  canary: RunningCanary,
  before: CanaryReport | undefined,
  parts: WatchParts,
): Promise<CanaryReport> {
  const { version, since } = canary;
  const tried = await tryOut(canary, before, parts);
  const common = { version, since, looks: before?.looks ?? 0, unended: 0, ...tried };
  if (tried.problem !== undefined) return { ...common, verdict: 'roll back', reason: tried.problem };
  if (parts.now() - Date.parse(since) > DAY_MS)
    return { ...common, verdict: 'roll back', reason: 'it was not promoted within 24 hours' };
  const sums = trialSums(await parts.counts.read(trialName(canary)));
  const ended = endedEnvironments(sums, before?.unended ?? 0);
  const found =
    ended === undefined ? judge(sums, common.looks) : ({ verdict: 'roll back', reason: ended } as const);
  return { ...common, unended: unended(sums), ...found };
}

/** The name under which environments count (lib/observe/trial.ts). */
function trialName({ version, since }: RunningCanary): string {
  return `${version} ${since}`;
}

interface Tried extends Pick<CanaryReport, 'golden' | 'attempts'> {
  readonly problem?: string;
}

/** Asks the golden requests once. That it is about to is written before, because opening a model may end this process. */
async function tryOut(
  { version, since }: RunningCanary,
  before: CanaryReport | undefined,
  parts: WatchParts,
): Promise<Tried> {
  if (before && before.golden !== 'asking') return { golden: before.golden, attempts: before.attempts };
  const attempts = (before?.attempts ?? 0) + 1;
  const asking = { golden: 'asking', attempts } as const;
  if (attempts > MOST_ATTEMPTS) {
    const problem = `the function that tries it ended ${MOST_ATTEMPTS} times while it opened it`;
    return { ...asking, problem };
  }
  const { s3, location, now, askGolden } = parts;
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
    await writeTrialReport(s3, location, { at: new Date(now()).toISOString(), canary });
    try {
      const requests = await askGolden(directory, pointer);
      return { golden: requests > 0 ? 'passed' : 'none', attempts };
    } catch (error) {
      return { ...asking, problem: ServingError.from(error).message };
    }
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
