/** Puts a version on trial beside the one that serves: as a shadow, or as a canary, of which there is one at a time. */
import { badConfig, ServingError } from '../contract/errors.ts';
import type { S3Client } from '../s3/objects.ts';
import { addressText, MOST_SHARE, type ModelLocation } from './download.ts';
import { addFurtherTrial } from './further-trials.ts';
import {
  assertNoCanary,
  type CurrentModel,
  MOST_REASON,
  type RunningCanary,
  replaceCurrent,
  type Shadow,
} from './pointer.ts';

/** @throws bad_config for a share outside of 0 to 0.5 */
export function assertShare(share: number): void {
  if (share >= 0 && share <= MOST_SHARE) return;
  throw badConfig(
    `a canary takes from 0 to 50 % of the records, got ${share * 100} %; above that, make it serve, and go back with \`model rollback\``,
  );
}

/** @throws conflict where a canary runs, it serves already, or nothing does; bad_config for its share; model_unavailable */
export async function startCanary(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  canary: RunningCanary,
): Promise<void> {
  assertShare(canary.share);
  assertNoCanary(location, current);
  assertBeside(location, current, canary.version);
  const shadow = current.shadow?.version === canary.version ? undefined : current.shadow;
  await addFurtherTrial(s3, location, canary.since);
  await replaceCurrent(s3, location, current, { canary, shadow }, canary.version);
}

/** @throws conflict where it serves already, or nothing does; model_unavailable */
export async function startShadow(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  shadow: Shadow,
): Promise<void> {
  assertNoCanary(location, current);
  assertBeside(location, current, shadow.version);
  await addFurtherTrial(s3, location, shadow.since);
  await replaceCurrent(s3, location, current, { shadow }, shadow.version);
}

/** @throws conflict where the pointer was changed meanwhile; model_unavailable */
export async function endShadow(s3: S3Client, location: ModelLocation, current: CurrentModel): Promise<void> {
  if (current.shadow)
    await replaceCurrent(s3, location, current, { shadow: undefined }, current.shadow.version);
}

/** The end of a canary: it serves from now on, or the version that serves takes all records again. */
export interface CanaryEnd {
  readonly isPromoted: boolean;
  readonly reason: string;
  /** ISO 8601. */
  readonly at: string;
}

/** @throws not_found where no canary runs; conflict where the pointer was changed meanwhile; model_unavailable */
export async function endCanary(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  { isPromoted, reason, at }: CanaryEnd,
): Promise<RunningCanary> {
  const { canary } = current;
  if (!canary)
    throw new ServingError(
      'not_found',
      `${addressText(location)}: no canary runs; \`model push --canary\` starts one`,
    );
  const { version } = canary;
  const end = isPromoted ? 'promoted' : 'rolled back';
  const ended = { version, end, reason: reason.slice(0, MOST_REASON), at } as const;
  const serving = isPromoted && { version, content: canary, history: [...current.history, { version, at }] };
  await replaceCurrent(s3, location, current, { ...serving, canary: undefined, ended }, version);
  return canary;
}

function assertBeside(location: ModelLocation, current: CurrentModel, version: string): void {
  if (current.content === undefined || current.version === undefined)
    throw new ServingError(
      'conflict',
      `${addressText(location)}: no pushed version serves, beside which ${version} could be tried; \`model push\` makes it serve`,
    );
  if (current.version === version)
    throw new ServingError('conflict', `${addressText(location)}: version ${version} serves already`);
}
