/** Replays captures on a model: copies them to this machine, and asks the model in a process that can be killed. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type JobConfig, withDefaults } from '../../lib/config/job.ts';
import type { CaptureFilter } from '../../lib/s3/capture-reader.ts';
import { inModelProcess, type ModelProcess, withModelProcess } from '../../onnx-import/process.ts';
import type { Side } from '../diff/run.ts';
import { newModelProcess } from '../model-process.ts';
import { type CopyOptions, copyCaptures } from './copy.ts';
import { Progress, type ProgressOptions } from './progress.ts';
import type { Replay } from './tally.ts';
import { REPLAY } from './tasks.ts';

export interface ReplayOptions extends CopyOptions {
  /** Which of them. */
  readonly filter: CaptureFilter;
  /** The version whose model is asked; undefined for a folder. */
  readonly version: string | undefined;
  /** The settings under which the model would serve. Default: those of the last capture. */
  readonly job: JobConfig | undefined;
  /** The input by whose values differences are counted. */
  readonly by?: string | undefined;
  /** Where the progress of a replay that is stopped is kept. Undefined: none is. */
  readonly progress?: ProgressOptions | undefined;
  readonly process?: ModelProcess | undefined;
}

const LIMIT_MS = 3_600_000;
/** @returns undefined where nothing was captured. @throws model_unavailable, too_large; S3's error; the signal's reason */
export async function replayCaptures(side: Side, options: ReplayOptions): Promise<Replay | undefined> {
  const { captures, version, by, signal } = options;
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-replay-'));
  const until = Date.now();
  const progress = options.progress && (await Progress.find(options.progress, until));
  try {
    const file = join(folder, 'captures.ndjson');
    const window = { since: options.filter.since ?? 0, until };
    const copy = () => copyCaptures(file, { ...options.filter, ...(progress?.window ?? window) }, options);
    let copied = await copy();
    // It has dropped its window then.
    if (copied && progress && !(await progress.begin(copied.digest, window))) {
      copied = await copy();
      if (copied) await progress.begin(copied.digest, window);
    }
    if (!copied) return undefined;
    const job = options.job ?? withDefaults(copied.settings);
    const { captured } = captures;
    const run = { ...side, version, job, captured, captures: file, by, progress: progress?.file };
    const ask = (process: ModelProcess) => inModelProcess(REPLAY, run, { ms: LIMIT_MS, signal }, process);
    const replay = await withModelProcess(options.process, ask, newModelProcess);
    await progress?.end();
    return replay;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
