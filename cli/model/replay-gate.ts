/** Replays what the serving version answered on a model that is about to serve, and stops it when too many answers change. */
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import { readCurrent } from '../../lib/registry/pointer.ts';
import type { ModelPlace } from '../../lib/registry/version-copy.ts';
import type { Side } from '../../release/diff/run.ts';
import { replayCaptures } from '../../release/replay/replay.ts';
import { problemsOf, replayText } from '../../release/replay/report.ts';
import type { Replay } from '../../release/replay/tally.ts';
import type { Output } from '../output.ts';
import { capturedModel } from './place.ts';
import { FLIPS, type ServedDiffOptions } from './served-diff.ts';

const DAY_MS = 86_400_000;

export interface JudgedReplay extends Replay {
  /** Those that were accepted. */
  readonly problems: readonly string[];
}

/**
 * @returns undefined where `release.maxFlips` is not set, or nothing was captured, which is noted
 * @throws bad_model with the table; the signal's reason
 */
export async function replayOnCandidate(
  { s3, location }: ModelPlace,
  side: Side,
  { job, accept, activate, signal, process }: ServedDiffOptions,
  output: Output,
): Promise<JudgedReplay | undefined> {
  const { maxFlips, days } = job.release;
  const captured = capturedModel({ location });
  const { version } = await readCurrent(s3, location);
  if (maxFlips === undefined || captured === undefined || version === undefined || !activate)
    return undefined;
  // Loaded on demand: most jobs replay nothing.
  const { CaptureReader } = await import('../../lib/s3/capture-reader.ts');
  let replay: Replay | undefined;
  try {
    const captures = new CaptureReader(s3, location.bucket, captured);
    const filter = { version, since: Date.now() - days * DAY_MS };
    replay = await replayCaptures(side, {
      captures,
      filter,
      version: undefined,
      job,
      signal,
      process,
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw badModel(
      `release.maxFlips: the captures cannot be replayed on this model: ${ServingError.from(error).message}`,
      { cause: error },
    );
  }
  if (!replay) {
    output.note(
      `note: release.maxFlips: nothing was captured of version ${version} in the last ${days} days`,
    );
    return undefined;
  }
  const problems = problemsOf(replay, { version: undefined, maxFlips });
  const isAccepted = accept.some((name) => name === FLIPS || name === 'all');
  if (problems.length === 0 || isAccepted) return { ...replay, problems };
  throw badModel(
    `too many answers change, so this version does not serve:\n${replayText(replay, problems)}\nIf that is meant, pass --accept ${FLIPS}`,
  );
}
