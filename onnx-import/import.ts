/**
 * Imports a model directory of any supported kind: writes the model as ONNX with its import report and checks it by running
 * it. Everything is made in a temporary folder that is renamed last, so the output appears whole or not at all.
 */
import { rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DEFAULT_JOB, type JobConfig } from '../lib/config/job.ts';
import { badModel, ServingError, withPathAs } from '../lib/contract/errors.ts';
import type { TensorSpec } from '../lib/contract/values.ts';
import type { Verification } from '../lib/contract/verification.ts';
import type { ImageChoice } from '../lib/pipeline/bind/image-choice.ts';
import { NO_NAMES } from '../lib/registry/names.ts';
import { readModel } from './batching/model.ts';
import type { ProofOptions } from './batching/verdict.ts';
import type { CheckOptions } from './check/check.ts';
import type { GivenShapes } from './check/given-sizes.ts';
import { hasFreeSizes } from './check/inputs.ts';
import { ModelProcess } from './check/model-process.ts';
import type { ConvertOptions } from './conversion.ts';
import { detectModel, type FoundModel } from './detect.ts';
import { type Convert, convertModel } from './formats.ts';
import { withProvenRows } from './free-rows.ts';
import { assertGolden } from './golden/check.ts';
import { copyGolden } from './golden/file.ts';
import type { Body } from './graph/value.ts';
import { picturesText } from './image-advice.ts';
import { type ImportReport, importReportText } from './import-report.ts';
import { isOnnx } from './kinds.ts';
import { tritonSizes } from './layout/triton.ts';
import { check, type FileSays, type MadeModel, MODEL_FILE, passThrough } from './made-model.ts';
import { importReportOf } from './make-report.ts';
import { givenBy, notRunNotes, shapelessNotes } from './notes.ts';
import { writeOnnx } from './onnx/write.ts';
import { assertUsed } from './options.ts';
import { assertOutput, takeOver, temporaryBeside } from './output-folder.ts';
import { REPORT_FILE, REPORT_TEXT_FILE } from './report-file.ts';
import { assertApplied } from './unapplied.ts';
import type { AnsweredSample } from './verify/sample.ts';
import { fitImage, folderImage } from './vision/folder.ts';
import { sizesOfPictures } from './vision/sizes.ts';

export interface ImportOptions extends CheckOptions {
  readonly convert?: ConvertOptions | undefined;
  /** What the verification is made for. Default: that of the default settings. */
  readonly proof?: ProofOptions | undefined;
  /** The output directory. */
  readonly out: string;
  /** Allows an output directory with other files, which stay. Default false. */
  readonly force?: boolean | undefined;
  /** The version of the package, which is recorded as the converter's. */
  readonly version: string;
  /** Called at each stage, and with the progress of a long one. */
  readonly onStage?: ((stage: Stage, done?: number, total?: number) => void) | undefined;
  /** The settings under which the model is asked. Default: those of a job without a config. */
  readonly job?: JobConfig | undefined;
  /** Cancels between stages, while writing and while checking; nothing is left behind. */
  readonly signal?: AbortSignal | undefined;
  /** Replaces the built-in converters. */
  readonly converter?: Convert | undefined;
}

export type Stage = 'reading' | 'converting' | 'writing' | 'checking' | 'verifying';

export interface Imported {
  /** Absolute. */
  readonly directory: string;
  readonly importReport: ImportReport;
}

/**
 * @throws bad_model when the directory holds no supported model, when it cannot be converted (naming every operation)
 * or does not run; bad_config for an output directory that is in use, and for options without effect
 */
export async function importModel(directory: string, options: ImportOptions): Promise<Imported> {
  options.onStage?.('reading');
  const found = await detectModel(directory, options.convert);
  assertUsed(found.kind, options.convert ?? {});
  await assertOutput(options.out, found.home, options.force ?? false);
  return importInto(found, options);
}

/** Like importModel, for a model and an output that were checked already. */
export async function importInto(found: FoundModel, options: ImportOptions): Promise<Imported> {
  const start = performance.now();
  options.signal?.throwIfAborted();
  const { job: settings = DEFAULT_JOB } = options;
  const ignored = await assertApplied(found.home, settings, found.kind);
  const said = await folderImage(found.home, settings.import);
  const folder = await temporaryBeside(options.out);
  const { process = new ModelProcess() } = options;
  try {
    const make = isOnnx(found.kind) ? passThrough : convert;
    const fit = said && ((inputs: readonly TensorSpec[]) => fitImage(found.home, said, inputs, settings));
    const given = { ...options, sizes: sizesOf(found, options, fit), process };
    const made = await make(found, folder, given);
    const prepared = said && fit && { source: said.source, image: fit(made.report.inputs) };
    const imported = await importReportOf(found, folder, made, { ...given, prepared }, start);
    const importReport = { ...imported, notes: [...imported.notes, ...ignored] };
    // Those that were recorded in the output stay.
    await copyGolden(options.out, folder);
    await copyGolden(found.home, folder);
    const [{ signal }, { verification }] = [options, importReport];
    const job = withAxes(settings, verification);
    const file = join(folder, MODEL_FILE);
    const sample = { pictures: picturesOf(importReport, job) };
    const gate = { gate: true, sizes: given.sizes, sample };
    const asked = await assertGolden(folder, { file, job, verification, ...gate, signal, process });
    const full = withSample(importReport, asked.sample);
    await writeFile(join(folder, REPORT_FILE), `${JSON.stringify(full, undefined, 2)}\n`);
    const text = [importReportText(full), ...picturesText(full, job.image), ''];
    await writeFile(join(folder, REPORT_TEXT_FILE), text.join('\n'));
    return { directory: await takeOver(folder, options.out), importReport: full };
  } catch (error) {
    throw withoutFolder(ServingError.from(error), folder, found);
  } finally {
    if (!options.process) process.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A converted model has the sizes that were given; of an ONNX model they are for the check, and so are those of its pictures. */
function sizesOf(
  { kind, directory, files, triton }: FoundModel,
  { convert: { inputShapes } = {}, job = DEFAULT_JOB }: ImportOptions,
  fit: ((inputs: readonly TensorSpec[]) => ImageChoice) | undefined,
): GivenShapes {
  if (!isOnnx(kind)) return undefined;
  const file = join(directory, files[0] as string);
  const pictures = fit && sizesOfPictures(file, fit, job.image);
  const said = triton && tritonSizes(triton, readModel(file).graph);
  return pictures || said ? { ...said, ...pictures, ...inputShapes } : inputShapes;
}

/** onnxruntime names the file that it was given, whose folder is gone when the message is read. */
function withoutFolder(error: unknown, folder: string, { kind, directory, files }: FoundModel) {
  const isOwn = isOnnx(kind);
  const shown = isOwn ? join(directory, files[0] as string) : 'the converted model';
  const named = withPathAs(error, join(folder, MODEL_FILE), shown);
  return withPathAs(named, folder, isOwn ? directory : 'the folder of the converted model');
}

async function convert(found: FoundModel, folder: string, options: ImportOptions): Promise<MadeModel> {
  options.onStage?.('converting');
  const settings = { ...found.mlflow?.defaults, ...options.convert };
  const first = await (options.converter ?? convertModel)(found, settings);
  const conversion = await withProvenRows(first, folder, options);
  const { graph, files, image, notes, names = NO_NAMES } = conversion;
  const shapeless = graph.inputs.filter(({ shape }) => shape === undefined).map(({ name }) => name);
  const outputs = graph.outputs.filter(({ value }) => value.shape === undefined).map(({ name }) => name);
  const facts = await write(graph, folder, options);
  const checked = await check(folder, shapeless, options);
  const { report } = checked;
  const isOpen = hasFreeSizes(report.inputs) || shapeless.length > 0 || report.reference !== undefined;
  if (report.notRun !== undefined && !isOpen) {
    throw badModel(`the model was converted but does not run: ${report.notRun}`);
  }
  return {
    facts,
    ...checked,
    shapeless: { inputs: shapeless, outputs },
    sources: files,
    notes: [
      ...notes,
      ...notRunNotes(report, 'fix the free sizes with --input name:shape'),
      ...shapeless.flatMap((name) => shapelessNotes([name], givenBy(name))),
    ],
    image,
    isFreed: conversion === first && first.otherwise !== undefined,
    names,
  };
}

async function write(graph: Body, folder: string, options: ImportOptions): Promise<FileSays> {
  const { version, onStage, signal } = options;
  signal?.throwIfAborted();
  onStage?.('writing');
  const { files, ...versions } = await writeOnnx(graph, join(folder, MODEL_FILE), {
    producerVersion: version,
    onProgress: (done, total) => {
      signal?.throwIfAborted();
      onStage?.('writing', done, total);
    },
  });
  return { ...versions, externalFiles: files.slice(1).map((path) => basename(path)) };
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
