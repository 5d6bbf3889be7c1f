/** `model replay`: asks a model what was captured, and compares its answers with those that clients got. */
import { join } from 'node:path';
import type { ReplayFacts } from '../../console/captures.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { asError, badRequest } from '../../lib/contract/errors.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { installation } from '../../local/machine/installation.ts';
import { claimFolder, REPLAYS } from '../../local/service/data-folder.ts';
import { newModelProcess } from '../../release/model-process.ts';
import { folderDigest, type ProgressOptions } from '../../release/replay/progress.ts';
import { type ReplayOptions, replayCaptures } from '../../release/replay/replay.ts';
import { type Judged, problemsOf, replayText } from '../../release/replay/report.ts';
import type { Replay } from '../../release/replay/tally.ts';
import { sinceOf } from '../capture/since.ts';
import { wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { dataDirOf } from '../service.ts';
import { readShare } from '../share.ts';
import { replayInAws } from './in-aws.ts';
import { capturedModel, type OpenPlace, type PlaceValues, withPlace, withS3 } from './place.ts';
import { type DiffSettings, SERVING, withSide } from './side.ts';

export interface ReplayValues extends PlaceValues {
  readonly config?: string | undefined;
  readonly since?: string | undefined;
  readonly 'answered-by'?: string | undefined;
  readonly by?: string | undefined;
  readonly 'max-flips'?: string | undefined;
  readonly fresh?: boolean | undefined;
  readonly 'in-aws'?: boolean | undefined;
  readonly stack?: string | undefined;
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
  const maxFlips = (job: JobConfig | undefined) =>
    values['max-flips'] === undefined ? job?.release.maxFlips : readShare('max-flips', values['max-flips']);
  if (values['in-aws'] ?? false) {
    const filter = { since, version: values['answered-by'] };
    const { version, replay: found, ...deployed } = await replayInAws(argument, filter, values, output);
    const judged = { version, maxFlips: maxFlips(undefined) };
    return withS3(deployed.place, ({ s3, location }) => {
      const captures = new CaptureReader(s3, location.bucket, deployed.captured);
      return reportReplay(found, { ...judged, captures }, output);
    });
  }
  if (values.stack !== undefined) throw wrongUse('model replay: --stack goes with --in-aws');
  return withPlace(values, output, (place) => {
    const captured = capturedModel(place);
    if (captured === undefined)
      throw wrongUse(`${place.text} is not the place of a job's model, so nothing of it is captured`);
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
          filter: { since, version: values['answered-by'] },
          version,
          job,
          by: values.by,
          progress: await progressOf(values, question, output),
          signal,
          process,
          onCopied: (objects) => progress.update({ label: `${objects} objects of captures read` }),
        };
        const found = await replayCaptures(side, options);
        progress.end();
        return reportReplay(found, { ...options, maxFlips: maxFlips(job) }, output);
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

interface Replayed extends Judged {
  readonly captures: CaptureReader;
  readonly job?: JobConfig | undefined;
}

/** @param found undefined where nothing was captured */
async function reportReplay(found: Replay | undefined, options: Replayed, output: Output): Promise<number> {
  if (!found)
    throw badRequest(`nothing was captured of ${whoseText(options)} since then; ${adviceFor(options.job)}`);
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

function whoseText({ captures: { captured } }: Replayed): string {
  const job = `the job ${captured.job}`;
  return captured.model === undefined ? job : `the model ${captured.model} of ${job}`;
}

function adviceFor(job: JobConfig | undefined): string {
  return job && isCapturing(job.capture)
    ? 'captures are stored within a minute of the next request'
    : 'set capture.share in config.yaml, and pass an earlier --since';
}
