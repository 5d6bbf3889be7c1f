/** The question of `model replay --in-aws`: a stored version is asked what was captured, where it serves and beside the captures. */
import { badRequest } from '../../lib/contract/errors.ts';
import { isModelName } from '../../lib/contract/names.ts';
import { isVersion, readPointer } from '../../lib/registry/download.ts';
import type { CaptureFilter } from '../../lib/s3/capture-reader.ts';
import type { Replay } from '../replay/tally.ts';
import type { WatchParts } from './watch.ts';

export interface ReplayQuestion {
  /** The name of a further model. Default: the job's own. */
  readonly model?: string | undefined;
  /** Default: the one that serves. */
  readonly version?: string | undefined;
  readonly filter: CaptureFilter;
  /** The input by whose values differences are counted. */
  readonly by?: string | undefined;
}

export interface ReplayAnswer {
  /** As asked. An earlier release does not know it, and asks the job's own model. */
  readonly model?: string | undefined;
  /** The version that was asked. */
  readonly version: string;
  /** Absent where nothing was captured. */
  readonly replay?: Replay | undefined;
}

const MOST_CHARACTERS = 1_000;

/** @returns undefined for an event of the schedule. @throws bad_request */
export function questionIn(event: unknown): ReplayQuestion | undefined {
  const { replay } = objectOf(event);
  if (replay === undefined) return undefined;
  const { model, version, filter, by } = objectOf(replay);
  const { since, until, version: answeredBy } = objectOf(filter);
  const isRight =
    (model === undefined || isModelName(model)) &&
    (version === undefined || isVersion(version)) &&
    (answeredBy === undefined || isVersion(answeredBy)) &&
    isTime(since) &&
    isTime(until) &&
    (by === undefined || (typeof by === 'string' && by.length <= MOST_CHARACTERS));
  if (isRight) return { model, version, filter: { since, until, version: answeredBy }, by };
  throw badRequest(
    'replay: expected {"model", "version", "filter": {"since", "until", "version"}, "by"}: the name of a further model, versions, times in ms since 1970, and the name of an input',
  );
}

/** @throws not_found, model_unavailable, too_large */
export async function answerReplay(
  { model, version, filter, by }: ReplayQuestion,
  { s3, location, replay }: WatchParts,
): Promise<ReplayAnswer> {
  const asked = version ?? (await readPointer(s3, location)).version;
  return { model, version: asked, replay: await replay(asked, filter, by) };
}

function isTime(value: unknown): value is number | undefined {
  return value === undefined || Number.isSafeInteger(value);
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
