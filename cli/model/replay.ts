/** `model replay`: asks a model what was captured, and compares its answers with those that clients got. */
import { join } from 'node:path';
import type { ReplayFacts } from '../../console/api.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { asError, badRequest } from '../../lib/contract/errors.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { installation } from '../../local/machine/installation.ts';
import { claimFolder, REPLAYS } from '../../local/service/data-folder.ts';
import type { Side } from '../../release/diff/run.ts';
import { newModelProcess } from '../../release/model-process.ts';
import { folderDigest, type ProgressOptions } from '../../release/replay/progress.ts';
import { type ReplayOptions, replayCaptures } from '../../release/replay/replay.ts';
import { problemsOf, replayText } from '../../release/replay/report.ts';
import { sinceOf } from '../capture/since.ts';
import { wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { dataDirOf } from '../service.ts';
import { readShare } from '../share.ts';
import { capturedJob, type OpenPlace, type PlaceValues, withPlace } from './place.ts';
import { type DiffSettings, SERVING, withSide } from './side.ts';

export interface ReplayValues extends PlaceValues {
  readonly config?: string | undefined;
  readonly since?: string | undefined;
  readonly 'answered-by'?: string | undefined;
  readonly by?: string | undefined;
  readonly 'max-flips'?: string | undefined;
  readonly fresh?: boolean | undefined;
}

const SINCE = '24h';

/** @returns exit code 1 for a replay that is not good */
export async function replay(
  args: readonly string[],
  values: ReplayValues,
  settings: DiffSettings,
  output: Output,
): Promise<number> {
  const [argument = SERVING, surplus] = args;
  if (surplus !== undefined) throw wrongUse(`model replay: unexpected ${JSON.stringify(surplus)}`);
  const since = sinceOf(values.since ?? SINCE, Date.now());
  return withPlace(values, output, (place) => {
    const captured = capturedJob(place);
    if (captured === undefined)
      throw wrongUse(`${place.text} is not the place of a job, so nothing is captured beside it`);
    const process = newModelProcess();
    const progress = showProgress(output.json);
    return interruptible('the replay, which the same command continues,', output, (signal) => {
      const given = { ...settings, dataDir: dataDirOf(values), signal, process };
      return withSide(place, argument, given, output, async (side, version) => {
        const job = values.config === undefined ? undefined : settings.job;
        const model = version ?? (await folderDigest(side.file));
        const question = { ...questionOf(values, place, job), model };
        const options: ReplayOptions = {
          captures: new CaptureReader(place.s3, place.location.bucket, captured),
          captured,
          filter: { since, version: values['answered-by'] },
          version,
          job,
          by: values.by,
          progress: await progressOf(values, question, output),
          signal,
          process,
          onCopied: (objects) => progress.update({ label: `${objects} objects of captures read` }),
        };
        const maxFlips =
          values['max-flips'] === undefined
            ? job?.release.maxFlips
            : readShare('max-flips', values['max-flips']);
        return answerReplay(side, { ...options, maxFlips }, output, () => progress.end());
      });
    }).finally(() => {
      progress.end();
      process.close();
    });
  });
}

/** All that decides the answer, but the model and the captures. */
function questionOf(
  { since = SINCE, 'answered-by': version }: ReplayValues,
  { location, endpoint }: OpenPlace,
  job: JobConfig | undefined,
) {
  return { release: installation().version, location, endpoint, since, version, job };
}

/** @returns undefined where the folder cannot be written, which is noted */
async function progressOf(
  values: ReplayValues,
  question: object,
  output: Output,
): Promise<ProgressOptions | undefined> {
  const dataDir = dataDirOf(values);
  try {
    await claimFolder(dataDir);
  } catch (error) {
    output.note(`note: a replay that is stopped will start again: ${asError(error).message}`);
    return undefined;
  }
  const folder = join(dataDir, REPLAYS);
  return {
    folder,
    question,
    isFresh: values.fresh ?? false,
    onNote: (note) => output.note(`note: ${note}`),
  };
}

async function answerReplay(
  side: Side,
  options: ReplayOptions & { readonly maxFlips: number | undefined },
  output: Output,
  onEnd: () => void,
): Promise<number> {
  const found = await replayCaptures(side, options);
  onEnd();
  if (!found)
    throw badRequest(
      `nothing was captured of the job ${options.captured} since then; ${adviceFor(options.job)}`,
    );
  const problems = problemsOf(found, options);
  const { captures, version } = options;
  const report: ReplayFacts = {
    form: 1,
    at: new Date().toISOString(),
    model: version ?? 'a folder',
    ...found,
    problems,
  };
  await captures.putReport(JSON.stringify(report)).catch((error: unknown) => {
    output.note(`note: the console does not show this replay: ${asError(error).message}`);
  });
  output.answer({ ...found, problems }, replayText(found, problems));
  return problems.length === 0 ? EXIT.ok : EXIT.failed;
}

function adviceFor(job: JobConfig | undefined): string {
  return job && isCapturing(job.capture)
    ? 'captures are stored within a minute of the next request'
    : 'set capture.share in config.yaml, and pass an earlier --since';
}
