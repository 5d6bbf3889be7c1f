/**
 * `model push`: uploads a model directory of any kind as an immutable version. Ctrl-C aborts running multipart
 * uploads; the next push skips complete files.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { percentText } from '../../lib/contract/share.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { keptGoldenNotes, verificationNotes } from '../../lib/contract/verification-text.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { type Published, type PublishOptions, publishModel, type Trial } from '../../lib/registry/publish.ts';
import type { ModelOrigin } from '../../lib/registry/versions.ts';
import { check, needsImport, readFacts, referenceProblem, reportPath } from '../../onnx-import/index.ts';
import type { DiffReport } from '../../release/diff/report.ts';
import type { ImportOptions } from '../../release/import.ts';
import { wrongUse } from '../command.ts';
import { bytesText } from '../dlq/text.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { type Changes, changeLines } from './changes.ts';
import { withImport } from './import.ts';
import { namedPlace, type OpenPlace } from './place.ts';
import type { JudgedReplay } from './replay-gate.ts';
import { assertTriable } from './trial.ts';

const MB = 1e6;
/** As publishModel names it. */
const WORKER = 'worker';

type Options = Omit<ImportOptions, 'out' | 'version' | 'job'>;

export interface PushOptions extends Options {
  readonly activate: boolean;
  /** How it is tried instead of serving. */
  readonly trial?: Trial | undefined;
  /** True: golden requests of the serving version are neither asked nor kept. */
  readonly dropGolden: boolean;
  /** Names of changes of which clients know. */
  readonly accept: readonly string[];
  /** Its batches decide what is verified. */
  readonly job: JobConfig;
}

export async function push(
  place: OpenPlace,
  directory: string,
  { activate, trial, dropGolden, accept, job, ...options }: PushOptions,
  output: Output,
): Promise<number> {
  const { s3, location, text } = place;
  assertPushable(place, job, trial);
  const stop = new AbortController();
  const onSignal = () => stop.abort(new ServingError('cancelled', 'the upload was called off'));
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  const { newModelProcess } = await import('../../release/model-process.ts');
  const models = newModelProcess();
  const progress = showProgress(output.json);
  const onBytes = (done: number, total: number) =>
    progress.update({ done: done / MB, total: total / MB, unit: 'MB', label: 'sent' });
  const deployed = { job, signal: stop.signal, process: models, isDeployed: true };
  const withFolder = job.worker.class === undefined ? withOnnx : withFiles;
  try {
    const published = await withFolder(
      directory,
      { ...options, job, process: models },
      output,
      async (folder, source, known, memoryBytes) => {
        const { verifyVersion } = await import('../../release/version.ts');
        const { diffWithServed } = await import('./served-diff.ts');
        const { replayOnCandidate } = await import('./replay-gate.ts');
        await assertTriable(place, trial, folder);
        let diff: DiffReport | undefined;
        let replay: JudgedReplay | undefined;
        const verify: PublishOptions['verify'] = async (file, stored, kept) => {
          const verification = await verifyVersion(file, { ...deployed, known: stored ?? known, kept });
          const [side, choice] = [
            { file, verification },
            // A shadow answers nobody.
            { ...deployed, accept, activate: activate && trial?.kind !== 'shadow' },
          ];
          diff = await diffWithServed(place, side, choice, output);
          replay = await replayOnCandidate(place, side, choice, output);
          return verification;
        };
        const files = source.format === WORKER ? { anyFiles: true } : { verify };
        const named = namedPlace(place, job);
        const given = { activate, trial, dropGolden, source, memoryBytes, named };
        const upload = { ...given, signal: stop.signal, onBytes, ...files };
        const made = await publishModel(s3, location, folder, upload);
        return { ...made, trial, format: source.format, diff, replay };
      },
    );
    progress.end();
    answerOf(published, text, job, output);
    return EXIT.ok;
  } finally {
    progress.end();
    models.close();
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

/** @throws WrongUse for what a worker cannot do */
function assertPushable({ workerConfig }: OpenPlace, { worker }: JobConfig, trial: Trial | undefined): void {
  if (workerConfig !== undefined)
    throw wrongUse(
      `the worker of ${workerConfig} is served from its folders, not from S3: change the files of its modelPath and run \`cluster-serving restart\``,
    );
  if (trial && worker.class !== undefined)
    throw wrongUse(
      'versions of a worker are not tried: what it answers is not captured, and it has no golden requests',
    );
}

function answerOf(
  published: Published & Changes & { readonly format: string; readonly trial: Trial | undefined },
  text: string,
  { batching }: JobConfig,
  output: Output,
): void {
  const { version, files, skipped, before, serves, format, verification, keptGolden, diff, replay, trial } =
    published;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const uploaded = files.length - skipped;
  const counts = { bytes, files: files.length, uploaded, skipped };
  const was = before === undefined || before === version ? '' : `, instead of ${before}`;
  const there = skipped > 0 ? `; ${skipped} were there` : '';
  const now = serves
    ? `serves from ${text}${was}`
    : (trialText(trial, before) ?? `lies in ${text}; \`model rollback ${version}\` promotes it`);
  output.answer(
    {
      version,
      to: text,
      format,
      ...counts,
      serves,
      trial: trial ?? null,
      before: before ?? null,
      keptGolden,
      verification,
      diff,
      replay,
    },
    [
      `${uploaded} of ${files.length} files uploaded, ${bytesText(bytes)} in all${there}`,
      `version ${version} ${now}`,
      ...keptGoldenNotes(keptGolden),
      ...verificationNotes(verification, batching),
      ...changeLines(published),
    ].join('\n'),
  );
}

function trialText(trial: Trial | undefined, before: string | undefined): string | undefined {
  if (!trial) return undefined;
  const next =
    '`model trial` shows what is found, `model promote` makes it serve, `model trial --end` ends it';
  if (trial.kind === 'shadow')
    return `answers what was captured of version ${before}, and nobody else; ${next}`;
  return `answers ${percentText(trial.share)} of the records beside version ${before}; ${next}`;
}

/** Calls `work` with a worker's folder, which may hold any files: only its code knows what they are. */
async function withFiles<T>(
  directory: string,
  { job: _job, ...options }: Options & { readonly job: JobConfig },
  _output: Output,
  work: (directory: string, source: ModelOrigin, known: undefined, memoryBytes: undefined) => Promise<T>,
): Promise<T> {
  const given = [
    ...Object.keys(options.convert ?? {}),
    ...(options.reference === undefined ? [] : ['reference']),
  ];
  if (given.length > 0)
    throw wrongUse(`the files of a worker are uploaded unchanged; ${given.join(', ')} is for models`);
  return work(resolve(directory), { format: WORKER }, undefined, undefined);
}

/** Calls `work` with a directory with ONNX: this one after a check, or an import of it. */
async function withOnnx<T>(
  directory: string,
  { job, ...options }: Options & { readonly job: JobConfig },
  output: Output,
  work: (
    directory: string,
    source: ModelOrigin,
    known: Verification | undefined,
    memoryBytes: number,
  ) => Promise<T>,
): Promise<T> {
  const { assertApplied } = await import('../../release/unapplied.ts');
  const folder = resolve(directory);
  if (await needsImport(folder, options.convert)) {
    return withImport(
      folder,
      { ...options, job, measure: false },
      output,
      ({ directory: made, importReport }) => {
        const { source, verification, measured } = importReport;
        return work(made, source, verification, measured.memoryGrowthBytes);
      },
    );
  }
  const given = Object.keys(options.convert ?? {});
  if (given.length > 0) {
    throw wrongUse(`an ONNX model is used unchanged; ${given.join(', ')} cannot be changed here`);
  }
  const memoryBytes = await assertRuns(folder, options);
  for (const note of await assertApplied(folder, job)) output.note(`note: ${note}`);
  return work(folder, await sourceOf(folder), undefined, memoryBytes);
}

/**
 * A model that does not load here would not load there either, which would only show when it serves.
 * @returns the memory that it took
 */
async function assertRuns(folder: string, options: Options): Promise<number> {
  const file = await findModelFile(folder);
  const { shapelessInputs: shapeless } = await readFacts(file);
  const report = await check(file, { ...options, shapeless, measure: false });
  const problem = referenceProblem(report);
  if (problem) throw new ServingError('bad_model', problem);
  return report.measured.memoryGrowthBytes;
}

/** From the import report that an import leaves beside the model. */
async function sourceOf(folder: string): Promise<ModelOrigin> {
  try {
    const text = await readFile(reportPath(folder), 'utf8');
    const { source } = JSON.parse(text) as { source?: Partial<ModelOrigin> };
    if (typeof source?.format === 'string' && Array.isArray(source.files)) {
      return { format: source.format, files: source.files };
    }
  } catch {
    // There is no import report, or another program wrote the file.
  }
  return { format: 'onnx' };
}
