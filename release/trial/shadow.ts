/** Asks a shadow what was captured since it was last asked, and adds up what differs. */
import { ServingError } from '../../lib/contract/errors.ts';
import type { Observer } from '../../lib/pipeline/observer.ts';
import type { Shadow } from '../../lib/registry/pointer.ts';
import type { ShadowReport } from '../../lib/registry/trial-report.ts';
import type { CaptureFilter } from '../../lib/s3/capture-reader.ts';
import type { Replay } from '../replay/tally.ts';

export interface ShadowParts {
  /** Replays captures on a version. @param by an input by whose values differences are counted. @returns undefined where nothing was captured */
  readonly replay: (version: string, filter: CaptureFilter, by?: string) => Promise<Replay | undefined>;
  /** Told of each replay, with its records alone. */
  readonly onAsked?: Observer['shadowAsked'];
  /** Wall clock in ms. */
  readonly now: () => number;
}

/** Captures are written up to a minute after their answers, and by many environments. */
const SETTLED_MS = 120_000;
/** The times of captures that are asked at once: at least, and at most. */
const LEAST_MS = 180_000;
const MOST_MS = 3_600_000;

/**
 * @param keep stores the report before the replay, which may outlast the function that makes it: the next one asks for less then
 * @returns the same report where it is not time yet. A problem of the replay is part of the report
 */
export async function askShadow(
  { version, since }: Shadow,
  before: ShadowReport | undefined,
  { replay, now, onAsked }: ShadowParts,
  keep: (report: ShadowReport) => Promise<unknown>,
): Promise<ShadowReport> {
  const none = { compared: 0, flips: 0, differ: 0, otherEnds: 0, notReplayable: 0 };
  const start: ShadowReport = { version, since, until: Date.parse(since), windowMs: MOST_MS, ...none };
  const { problem: _, ...report } = before ?? start;
  const settled = now() - SETTLED_MS;
  if (settled - report.until < LEAST_MS) return before ?? start;
  const windowMs = Math.max(LEAST_MS, report.windowMs);
  const until = Math.min(settled, report.until + windowMs);
  await keep({ ...report, windowMs: windowMs / 2 });
  try {
    const found = await replay(version, { since: report.until, until: until - 1 });
    if (found) onAsked?.({ compared: found.compared, flips: found.flips, differ: differing(found) });
    return { ...added(report, found), until, windowMs: Math.min(MOST_MS, 2 * windowMs) };
  } catch (error) {
    return { ...report, problem: ServingError.from(error).message };
  }
}

function differing({ bits, tolerance }: Replay): number {
  return bits.differ + tolerance.differ;
}

function added(report: ShadowReport, found: Replay | undefined): ShadowReport {
  if (!found) return report;
  return {
    ...report,
    compared: report.compared + found.compared,
    flips: report.flips + found.flips,
    differ: report.differ + differing(found),
    otherEnds: report.otherEnds + found.failures.differ,
    notReplayable: report.notReplayable + found.notReplayable,
  };
}
