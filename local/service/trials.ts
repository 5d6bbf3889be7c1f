/** Looks at the versions on trial each minute, as a scheduled function does in AWS. Models are tried in a process that can be killed. */
import { statfs } from 'node:fs/promises';
import { availableMemory } from 'node:process';
import { trialCounts } from '../../lib/compose/results.ts';
import { modelLocation, s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { logError, logWarning } from '../../lib/contract/log.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { readVersion, withVersionCopy } from '../../lib/registry/version-copy.ts';
import type { WatchParts } from '../../release/trial/watch.ts';

const LOOK_MS = 60_000;
const MB = 1024 * 1024;

export interface TrialOptions {
  /** How often versions on trial are looked at, in ms. Default a minute. */
  readonly lookMs?: number;
  /** Wall clock in ms. Default Date.now. */
  readonly now?: () => number;
}

/** Looks now, and each minute. @returns a function that ends it */
export function watchTrialsHere(
  scope: Scope,
  { lookMs = LOOK_MS, now = Date.now }: TrialOptions = {},
): () => Promise<void> {
  const look = async () => {
    const { watchAll } = await import('../../release/trial/watch-all.ts');
    await watchAll((model) => partsOf(scope, now, model), scope.environment.job.jobName);
  };
  const safely = () => look().catch((error: unknown) => logError(error, { phase: 'trial' }));
  let looking = safely();
  const timer = setInterval(() => {
    looking = looking.then(safely);
  }, lookMs).unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}

function partsOf(scope: Scope, now: () => number, model: string | undefined): WatchParts {
  const { job, modelDirectory } = scope.environment;
  const place = { s3: scope.get(s3Client), location: modelLocation(scope, model) };
  const ofModel = model === undefined ? '' : ` of the model ${model}`;
  return {
    ...place,
    model,
    counts: scope.get(trialCounts),
    isCapturing: isCapturing(job.capture),
    now,
    async room() {
      const { bavail, bsize } = await statfs(modelDirectory);
      const memoryMB = Math.floor(availableMemory() / MB / job.processes);
      return { memoryMB, diskMB: Math.floor((bavail * bsize) / MB), isShared: false };
    },
    async askGolden(directory, { verification }) {
      const { assertGolden } = await import('../../release/golden/check.ts');
      const file = await findModelFile(directory);
      // Without golden requests, one made-up request says that it runs.
      return (await assertGolden(directory, { file, job, verification, gate: true })).count;
    },
    async replay(version, filter) {
      const [{ replayCaptures }, { CaptureReader }] = await Promise.all([
        import('../../release/replay/replay.ts'),
        import('../../lib/s3/capture-reader.ts'),
      ]);
      const captures = new CaptureReader(place.s3, place.location.bucket, { job: job.jobName, model });
      const pointer = await readVersion(place, version);
      return withVersionCopy(place, pointer, async (directory) => {
        const side = { file: await findModelFile(directory), verification: pointer.verification };
        return replayCaptures(side, { captures, filter, version, job });
      });
    },
    lookMs: 0,
    onRolledBack: (version, reason) =>
      logWarning(`the canary ${version}${ofModel} was rolled back: ${reason}`),
  };
}
