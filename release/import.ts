/**
 * An import for this service: the model also passes one request through each endpoint and its golden requests, under the
 * settings of the job, before it appears.
 */
import { join } from 'node:path';
import { DEFAULT_JOB, type JobConfig } from '../lib/config/job.ts';
import type { Verification } from '../lib/contract/verification.ts';
import { GOLDEN_FOLDER } from '../lib/registry/golden.ts';
import * as onnxImport from '../onnx-import/index.ts';
import { type Found, type ImportReport, MODEL_FILE, type Reported } from '../onnx-import/index.ts';
import type { ModelProcess } from '../onnx-import/process.ts';
import type { AnsweredSample } from './gate/sample.ts';
import { assertGolden } from './golden/check.ts';
import { copyGolden } from './golden/file.ts';
import { picturesText } from './image-advice.ts';
import { newModelProcess } from './model-process.ts';
import { SERVICE } from './service-words.ts';
import { assertApplied } from './unapplied.ts';

export interface ImportOptions
  extends Omit<onnxImport.ImportOptions, 'accept' | 'ignore' | 'image' | 'inspect' | 'own' | 'service'> {
  /** The settings under which the model is asked. Default: those of a job without a config. */
  readonly job?: JobConfig | undefined;
}

/** @throws like that of onnx-import; bad_model, too, when a request does not reach the model or gets another answer */
export function importModel(directory: string, options: ImportOptions): Promise<onnxImport.Imported> {
  return withProcess(options, (given) => onnxImport.importModel(directory, given));
}

/** Like importModel, for a model and an output that were checked already. */
export function importFound(found: Found, options: ImportOptions): Promise<onnxImport.Imported> {
  return withProcess(options, (given) => onnxImport.importFound(found, given));
}

async function withProcess(
  options: ImportOptions,
  work: (given: onnxImport.ImportOptions) => Promise<onnxImport.Imported>,
): Promise<onnxImport.Imported> {
  const process = options.process ?? newModelProcess();
  const job = options.job ?? DEFAULT_JOB;
  let ignored: readonly string[] = [];
  try {
    return await work({
      ...options,
      service: SERVICE,
      own: [GOLDEN_FOLDER],
      image: job.image,
      ignore: job.import.ignore,
      process,
      async inspect(found) {
        ignored = await assertApplied(found.home, job, found);
      },
      accept: (reported) => accept(reported, ignored, { ...options, job, process }),
    });
  } finally {
    if (!options.process) process.close();
  }
}

async function accept(
  { found, folder, sizes, importReport: imported }: Reported,
  ignored: readonly string[],
  options: ImportOptions & { readonly job: JobConfig; readonly process: ModelProcess },
): Promise<onnxImport.Accepted> {
  const { signal, process } = options;
  const importReport = { ...imported, notes: [...imported.notes, ...ignored] };
  // Those that were recorded in the output stay.
  await copyGolden(options.out, folder);
  await copyGolden(found.home, folder);
  const { verification } = importReport;
  const job = withAxes(options.job, verification);
  const file = join(folder, MODEL_FILE);
  const sample = { pictures: picturesOf(importReport, job) };
  const gate = { gate: true, sizes, sample };
  const asked = await assertGolden(folder, { file, job, verification, ...gate, signal, process });
  const full = withSample(importReport, asked.sample);
  return { importReport: full, lines: picturesText(full, job.image) };
}

/** None where pictures need a line in config.yaml that the job does not have. */
function picturesOf({ images, config }: ImportReport, { image }: JobConfig): string[] {
  const isReady = image.layout !== undefined || !config.includes('image:');
  return isReady ? images.map(({ input }) => input) : [];
}

function withSample(importReport: ImportReport, answered: AnsweredSample | undefined): ImportReport {
  if (!answered) return importReport;
  const measured = { ...importReport.measured, sampleAnswer: answered.answer };
  return { ...importReport, sample: answered.sample, measured };
}

/** With the batch axes that the import proposes, where the job sets none. */
function withAxes(job: JobConfig, verification: Verification | undefined): JobConfig {
  const { inputAxes = {} } = verification?.batching ?? {};
  const proposed = Object.entries(inputAxes).map(([name, batchAxis]) => [name, { batchAxis }] as const);
  return { ...job, inputs: { ...Object.fromEntries(proposed), ...job.inputs } };
}
