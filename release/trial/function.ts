/**
 * Composes the scheduled function, which opens the versions on trial where they will serve. Most minutes there is none, so what
 * opens a model is loaded when there is one.
 */
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { observers } from '../../lib/compose/observers.ts';
import { trialCounts } from '../../lib/compose/results.ts';
import { modelLocation, s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { trialsSeconds } from '../../lib/config/job.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { badModel } from '../../lib/contract/errors.ts';
import { logWarning } from '../../lib/contract/log.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { readVersion, withVersionCopy } from '../../lib/registry/version-copy.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { answerReplay, questionIn } from './asked.ts';
import type { WatchParts } from './watch.ts';
import { type PartsOf, watchAll } from './watch-all.ts';

const MB = 1024 * 1024;
/** The function without a model, rounded up. */
const FUNCTION_MB = 128;

/** @returns what looks at the versions of a model, and answers its replays */
export async function composeTrials(scope: Scope) {
  const { jobName } = scope.environment.job;
  return { jobName, of: (model?: string) => partsOf(scope, model) };
}

function partsOf(scope: Scope, model: string | undefined): WatchParts {
  const { job, bucket, memoryMB } = scope.environment;
  const place = { s3: scope.get(s3Client), location: modelLocation(scope, model) };
  const captured = { job: job.jobName, model };
  const ofModel = model === undefined ? '' : ` of the model ${model}`;
  return {
    ...place,
    model,
    counts: scope.get(trialCounts),
    isCapturing: isCapturing(job.capture),
    now: Date.now,
    async room() {
      const { blocks, bsize } = await statfs(tmpdir());
      return {
        memoryMB: memoryMB - FUNCTION_MB,
        diskMB: Math.floor((blocks * bsize) / MB),
        isShared: true,
      };
    },
    async askGolden(directory, { verification }) {
      const [{ answersTo, goldenText, isFailure }, { goldenRequests }] = await Promise.all([
        import('../golden/ask.ts'),
        import('../golden/file.ts'),
      ]);
      const requests = await goldenRequests(directory);
      const asked = { file: await findModelFile(directory), requests, job, verification };
      const failed = (await answersTo(asked)).filter(isFailure).map(goldenText);
      if (failed.length === 0) return requests.length;
      throw badModel(`${failed.length} of ${requests.length} golden requests: ${failed.join('; ')}`);
    },
    async replay(version, filter, by) {
      const [{ copyCaptures }, { runReplay }] = await Promise.all([
        import('../replay/copy.ts'),
        import('../replay/run.ts'),
      ]);
      const captures = new CaptureReader(place.s3, bucket, captured);
      const pointer = await readVersion(place, version);
      const folder = await mkdtemp(join(tmpdir(), 'captures-'));
      try {
        const file = join(folder, 'captures.ndjson');
        if (!(await copyCaptures(file, filter, { captures }))) return undefined;
        return await withVersionCopy(place, pointer, async (directory) => {
          const side = { file: await findModelFile(directory), verification: pointer.verification };
          return runReplay({ ...side, version, job, captured, captures: file, by });
        });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    onAsked: (asked) => scope.get(observers).shadowAsked?.(asked),
    lookMs: trialsSeconds(job) * 1000,
    onRolledBack(version, reason) {
      logWarning(`the canary ${version}${ofModel} was rolled back: ${reason}`);
      scope.get(observers).canaryRolledBack?.(version);
    },
  };
}

export const watch =
  ({ of, jobName }: { readonly of: PartsOf; readonly jobName: string }) =>
  async (event: unknown): Promise<unknown> => {
    const question = questionIn(event);
    return question ? answerReplay(question, of(question.model)) : ((await watchAll(of, jobName)) ?? {});
  };
