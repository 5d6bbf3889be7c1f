/** Replays captures on a model: copies them to this machine, and asks the model in a process that can be killed. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { readHeader } from '../../lib/codecs/capture/read.ts';
import { type JobConfig, withDefaults } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { CaptureFilter, CaptureReader } from '../../lib/s3/capture-reader.ts';
import { inModelProcess, type ModelProcess, withModelProcess } from '../../onnx-import/process.ts';
import type { Side } from '../diff/run.ts';
import { newModelProcess } from '../model-process.ts';
import { objectLine, problemLine } from './file.ts';
import { Progress, type ProgressOptions } from './progress.ts';
import type { Replay } from './tally.ts';
import { REPLAY } from './tasks.ts';

export interface ReplayOptions {
  readonly captures: CaptureReader;
  /** The job whose captures they are. */
  readonly captured: string;
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
  readonly signal?: AbortSignal | undefined;
  readonly process?: ModelProcess | undefined;
  /** Told how many objects were copied. */
  readonly onCopied?: ((objects: number) => void) | undefined;
}

const LIMIT_MS = 3_600_000;
/** Characters that are copied. */
const MOST_COPIED = 8 * 1024 ** 3;

/** @returns undefined where nothing was captured. @throws model_unavailable, too_large; S3's error; the signal's reason */
export async function replayCaptures(side: Side, options: ReplayOptions): Promise<Replay | undefined> {
  const { captured, version, by, signal } = options;
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
    const run = { ...side, version, job, captured, captures: file, by, progress: progress?.file };
    const ask = (process: ModelProcess) => inModelProcess(REPLAY, run, { ms: LIMIT_MS, signal }, process);
    const replay = await withModelProcess(options.process, ask, newModelProcess);
    await progress?.end();
    return replay;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Copied {
  /** Those of the last capture that can be read. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly digest: string;
}

/** @returns undefined where there is none */
async function copyCaptures(
  file: string,
  filter: CaptureFilter,
  { captures, signal, onCopied }: ReplayOptions,
): Promise<Copied | undefined> {
  const hash = createHash('sha256');
  const out = createWriteStream(file);
  let settings: Readonly<Record<string, unknown>> = {};
  let objects = 0;
  let characters = 0;
  const write = async (line: string) => {
    characters += line.length;
    if (characters > MOST_COPIED)
      throw new ServingError(
        'too_large',
        `more than ${MOST_COPIED} characters of captures; pass a later --since`,
      );
    hash.update(`${line}\n`);
    if (!out.write(`${line}\n`)) await once(out, 'drain');
  };
  try {
    for await (const page of captures.pages(filter)) {
      for (const object of page) {
        signal?.throwIfAborted();
        await write(objectLine(object.key));
        for await (const line of captures.lines(object)) {
          await write('text' in line ? line.text : problemLine(line.problem));
          if ('text' in line && line.number === 1) settings = settingsOf(line.text) ?? settings;
        }
        objects++;
        onCopied?.(objects);
      }
    }
  } finally {
    out.end();
    await finished(out);
  }
  return objects === 0 ? undefined : { settings, digest: hash.digest('hex') };
}

function settingsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return readHeader(line).settings;
  } catch {
    return undefined;
  }
}
