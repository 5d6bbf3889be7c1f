/** The versions on trial as a console shows them, and what ends a trial by hand. */
import type { Done, FurtherTrial, TrialFacts } from '../../console/api.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { modelAt, modelPrefix } from '../../lib/contract/names.ts';
import type { ModelPointer } from '../../lib/registry/download.ts';
import { readFurtherTrials } from '../../lib/registry/further-trials.ts';
import { isGolden } from '../../lib/registry/golden.ts';
import { type CurrentModel, readCurrent } from '../../lib/registry/pointer.ts';
import { endCanary, endShadow } from '../../lib/registry/trial.ts';
import { readTrialReport } from '../../lib/registry/trial-report.ts';
import type { ModelPlace } from '../../lib/registry/version-copy.ts';
import { pointerOf, readManifest, rollBack } from '../../lib/registry/versions.ts';
import { readAll } from '../../lib/s3/pages.ts';
import { sameTrial } from '../../release/trial/watch.ts';
import { assertGoldenHere } from './golden.ts';

export interface VersionPlace extends ModelPlace {
  readonly job: JobConfig;
}

export async function trialFacts({ s3, location }: ModelPlace): Promise<TrialFacts> {
  const { canary, shadow, ended } = await readCurrent(s3, location);
  const report = canary || shadow ? await readTrialReport(s3, location) : undefined;
  const found = sameTrial(report?.canary, canary);
  const asked = sameTrial(report?.shadow, shadow);
  return {
    canary: canary && {
      version: canary.version,
      share: canary.share,
      since: canary.since,
      found: found && { golden: found.golden, verdict: found.verdict, reason: found.reason },
    },
    shadow: shadow && {
      version: shadow.version,
      since: shadow.since,
      found: asked && {
        compared: asked.compared,
        flips: asked.flips,
        differ: asked.differ,
        otherEnds: asked.otherEnds,
        notReplayable: asked.notReplayable,
        problem: asked.problem,
      },
    },
    ended,
  };
}

/** @returns the further models of the job that have a version on trial; for the place of one of them none. @throws model_unavailable */
export async function furtherTrials({ s3, location }: ModelPlace): Promise<readonly FurtherTrial[]> {
  const { job, model: own } = modelAt(location.prefix) ?? {};
  if (job === undefined || own !== undefined) return [];
  const { begun } = await readFurtherTrials(s3, location.bucket, job);
  const found = await readAll([...begun.keys()], async (name) => {
    const facts = await trialFacts({ s3, location: { ...location, prefix: modelPrefix(job, name) } });
    return { model: name, ...facts };
  });
  return found.filter(({ canary, shadow }) => canary ?? shadow);
}

interface Promoted {
  readonly version: string;
  readonly from: string | undefined;
}

/**
 * The canary serves; without one, the shadow does.
 * @param check asks a version its golden requests. Its errors are thrown
 * @param wanted the version that is meant. Default: what is on trial
 * @throws not_found where nothing is on trial; conflict where another is, or the pointer was changed meanwhile; model_unavailable
 */
export async function promoteTrial(
  place: ModelPlace,
  check: (version: ModelPointer) => Promise<void>,
  wanted?: string,
): Promise<Promoted> {
  const { s3, location } = place;
  const current = await readCurrent(s3, location);
  const { version } = onTrial(current, wanted);
  if (!current.canary) return rollBack(s3, location, version, { check });
  const manifest = await readManifest(s3, location, version);
  if (manifest?.files.some(({ path }) => isGolden(path))) await check(pointerOf(manifest, location));
  await endCanary(s3, location, current, { isPromoted: true, reason: 'by hand', at: now() });
  return { version, from: current.version };
}

/**
 * The version that serves answers all records again. Without a canary, the shadow ends.
 * @param wanted the version that is meant. Default: what is on trial
 * @returns the version that was on trial
 * @throws as promoteTrial
 */
export async function endTrial({ s3, location }: ModelPlace, wanted?: string): Promise<string> {
  const current = await readCurrent(s3, location);
  const { version } = onTrial(current, wanted);
  if (current.canary)
    await endCanary(s3, location, current, { isPromoted: false, reason: 'by hand', at: now() });
  else await endShadow(s3, location, current);
  return version;
}

function onTrial({ canary, shadow }: CurrentModel, wanted: string | undefined) {
  const found = canary ?? shadow;
  if (!found)
    throw new ServingError('not_found', 'nothing is on trial; `model push --canary` or `--shadow` begins it');
  if (wanted === undefined || wanted === found.version) return found;
  throw new ServingError(
    'conflict',
    `version ${wanted} is not on trial (any more): version ${found.version} is; nothing was changed`,
  );
}

function now(): string {
  return new Date().toISOString();
}

/** @throws as promoteTrial; bad_model (a golden request) */
export async function promoteVersion(place: VersionPlace, wanted: string): Promise<Done> {
  const check = (pointer: ModelPointer) => assertGoldenHere(place, pointer, place.job);
  const { version, from } = await promoteTrial(place, check, wanted);
  const seconds = place.job.modelRefreshSeconds;
  return {
    done: `Version ${version} is promoted instead of ${from ?? 'none'}; it serves within ${seconds} s.`,
  };
}

/** @throws as promoteTrial */
export async function endVersion(place: VersionPlace, wanted: string): Promise<Done> {
  const version = await endTrial(place, wanted);
  return { done: `The trial of version ${version} has ended; the version that serves stays.` };
}
