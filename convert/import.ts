/**
 * Imports a model directory of any supported kind: writes the model as ONNX with its import report and checks it by running
 * it. Everything is made in a temporary folder that is renamed last, so the output appears whole or not at all.
 */
import { rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DEFAULT_JOB, type JobConfig } from '../lib/config/job.ts';
import { badModel, ServingError } from '../lib/contract/errors.ts';
import type { ModelNames } from '../lib/contract/values.ts';
import type { Verification } from '../lib/contract/verification.ts';
import { NAMES_FILE, NO_NAMES } from '../lib/registry/names.ts';
import { axisLines, proposedAxes } from './axis-proposal.ts';
import { type ProofOptions, prove } from './batching/verdict.ts';
import { type CheckOptions, checkOnnx } from './check/check.ts';
import { hasFreeSizes } from './check/inputs.ts';
import { ModelProcess } from './check/model-process.ts';
import type { CheckReport } from './check/run.ts';
import type { ConvertOptions, ImageProposal } from './conversion.ts';
import { detectModel, type FoundModel } from './detect.ts';
import { type Convert, convertModel } from './formats.ts';
import { withProvenRows } from './free-rows.ts';
import { assertGolden } from './golden/check.ts';
import { copyGolden } from './golden/file.ts';
import type { Body } from './graph/value.ts';
import { adviceText, imageAdvice } from './image-advice.ts';
import { readImages } from './image-reading.ts';
import { type ImportReport, importReportText, portFacts, referenceProblem } from './import-report.ts';
import { lambdaFit } from './lambda-fit.ts';
import { machineFacts } from './machine.ts';
import { writeNames } from './names.ts';
import { givenBy, notRunNotes, shapelessNotes } from './notes.ts';
import { type OnnxFacts, readOnnxFacts } from './onnx/facts.ts';
import { rewriteOnnx } from './onnx/rewrite/rewrite.ts';
import { IR_VERSION, OPSET, writeOnnx, writeParts } from './onnx/write.ts';
import { assertUsed } from './options.ts';
import { assertOutput, takeOver, temporaryBeside } from './output-folder.ts';
import { REPORT_FILE, REPORT_TEXT_FILE } from './report-file.ts';
import { copySource, fileFacts } from './sources.ts';
import { verifyModel } from './verify/verify.ts';

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

const MODEL_FILE = 'model.onnx';

/**
 * @throws bad_model when the directory holds no supported model, when it cannot be converted (naming every operation)
 * or does not run; bad_config for an output directory that is in use, and for options without effect
 */
export async function importModel(directory: string, options: ImportOptions): Promise<Imported> {
  options.onStage?.('reading');
  const found = await detectModel(directory);
  assertUsed(found.kind, options.convert ?? {});
  await assertOutput(options.out, found.home, options.force ?? false);
  return importInto(found, options);
}

/** Like importModel, for a model and an output that were checked already. */
export async function importInto(found: FoundModel, options: ImportOptions): Promise<Imported> {
  const start = performance.now();
  options.signal?.throwIfAborted();
  const folder = await temporaryBeside(options.out);
  const own = new ModelProcess();
  const process = options.process ?? own;
  try {
    const make = found.kind === 'onnx' ? passThrough : convert;
    // The check comes first, because what a model leaves in memory would be measured as the next one's.
    const made = await make(found, folder, { ...options, process });
    const importReport = await importReportOf(found, folder, made, { ...options, process }, start);
    // Those that were recorded in the output stay.
    await copyGolden(options.out, folder);
    await copyGolden(found.home, folder);
    const [{ signal }, { verification }] = [options, importReport];
    const job = withAxes(options.job ?? DEFAULT_JOB, verification);
    const file = join(folder, MODEL_FILE);
    await assertGolden(folder, { file, job, verification, gate: true, signal, process });
    await writeFile(join(folder, REPORT_FILE), `${JSON.stringify(importReport, undefined, 2)}\n`);
    const text = [importReportText(importReport), ...adviceText(imageAdvice(importReport, job.image)), ''];
    await writeFile(join(folder, REPORT_TEXT_FILE), text.join('\n'));
    return { directory: await takeOver(folder, options.out), importReport };
  } catch (error) {
    throw withoutFolder(ServingError.from(error), folder, found);
  } finally {
    own.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** onnxruntime names the file that it was given, whose folder is gone when the message is read. */
function withoutFolder(error: ServingError, folder: string, { kind, directory, files }: FoundModel) {
  const file = join(folder, MODEL_FILE);
  if (!error.message.includes(file)) return error;
  const shown = kind === 'onnx' ? join(directory, files[0] as string) : 'the converted model';
  return new ServingError(error.code, error.message.replaceAll(file, shown), { cause: error });
}

type FileSays = Pick<OnnxFacts, 'opset' | 'irVersion' | 'externalFiles'>;

/** The names of inputs and outputs of unknown rank. */
interface Shapeless {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

interface MadeModel {
  readonly facts: FileSays;
  readonly report: CheckReport;
  readonly shapeless: Shapeless;
  readonly sources: readonly string[];
  readonly notes: readonly string[];
  readonly image: ImageProposal | undefined;
  /** What the source itself calls columns and classes. */
  readonly names: ModelNames;
}

/** Copies an ONNX model with its external weights; unchanged, but for what no function can serve. */
async function passThrough(found: FoundModel, folder: string, options: ImportOptions): Promise<MadeModel> {
  const [file] = found.files as readonly [string];
  const facts = await readOnnxFacts(join(found.directory, file));
  const { externalFiles, shapelessInputs, shapelessOutputs } = facts;
  const rewritten = await rewriteOnnx(join(found.directory, file));
  for (const path of externalFiles) await copySource(found, path, join(folder, path));
  if (rewritten.model) await writeParts(join(folder, MODEL_FILE), rewritten.model.parts);
  else await copySource(found, file, join(folder, MODEL_FILE));
  const report = await check(folder, shapelessInputs, options);
  return {
    facts,
    report,
    shapeless: { inputs: shapelessInputs, outputs: shapelessOutputs },
    sources: [file, ...externalFiles],
    names: { columns: {}, labels: rewritten.labels },
    notes: [
      ...rewritten.notes,
      ...notRunNotes(report, 'export the model with fixed sizes'),
      ...shapelessNotes(shapelessInputs, 'export the model with its shape, so that it has one'),
    ],
    image: undefined,
  };
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
  const report = await check(folder, shapeless, options);
  const isOpen = hasFreeSizes(report.inputs) || shapeless.length > 0 || report.reference !== undefined;
  if (report.notRun !== undefined && !isOpen) {
    throw badModel(`the model was converted but does not run: ${report.notRun}`);
  }
  return {
    facts,
    report,
    shapeless: { inputs: shapeless, outputs },
    sources: files,
    notes: [
      ...notes,
      ...notRunNotes(report, 'fix the free sizes with --input name:shape'),
      ...shapeless.flatMap((name) => shapelessNotes([name], givenBy(name))),
    ],
    image,
    names,
  };
}

async function write(graph: Body, folder: string, options: ImportOptions): Promise<FileSays> {
  const { version, onStage, signal } = options;
  signal?.throwIfAborted();
  onStage?.('writing');
  const { files } = await writeOnnx(graph, join(folder, MODEL_FILE), {
    producerVersion: version,
    onProgress: (done, total) => {
      signal?.throwIfAborted();
      onStage?.('writing', done, total);
    },
  });
  return { opset: OPSET, irVersion: IR_VERSION, externalFiles: files.slice(1).map((path) => basename(path)) };
}

async function check(
  folder: string,
  shapeless: readonly string[],
  options: ImportOptions,
): Promise<CheckReport> {
  options.onStage?.('checking');
  const file = join(folder, MODEL_FILE);
  const sharesRuns = prove(file, options.proof).verdict.verdict === 'proven';
  const report = await checkOnnx(file, { ...options, shapeless, sharesRuns });
  const problem = referenceProblem(report);
  if (problem) throw badModel(problem);
  return report;
}

async function importReportOf(
  found: FoundModel,
  folder: string,
  { facts, report, shapeless, sources, notes, image, names }: MadeModel,
  options: ImportOptions,
  start: number,
): Promise<ImportReport> {
  const named = await writeNames(found, folder, names, report);
  const files = await fileFacts(folder, [MODEL_FILE, ...facts.externalFiles, ...(named ? [NAMES_FILE] : [])]);
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const reading = readImages(report.inputs, image);
  const { measured, reference, produced, notRun } = report;
  options.onStage?.('verifying');
  const { proof = {}, signal, process } = options;
  const proposed = proposedAxes(report.inputs, shapeless.inputs);
  // No record reaches such a model without these axes, so the verdict is about them.
  const batchAxes = { ...proposed, ...proof.batchAxes };
  const verification = await verifyModel(join(folder, MODEL_FILE), { ...proof, batchAxes, signal, process });
  const lambda = lambdaFit(bytes, measured.memory);
  const nan = produced.filter((output) => output.nan > 0).map((output) => [output.name, output.nan] as const);
  const errors = reference?.outputs.map((output) => [output.name, output.maxError] as const);
  return {
    version: 1,
    converter: { name: 'cluster-serving', version: options.version },
    source: {
      format: found.kind,
      files: await fileFacts(found.directory, [...sources].sort()),
      ...flavorOf(found),
    },
    options: options.convert ?? {},
    model: { file: MODEL_FILE, opset: facts.opset, irVersion: facts.irVersion, files, bytes },
    inputs: report.inputs.map((spec) => portFacts(spec, shapeless.inputs)),
    outputs: report.outputs.map((spec) => portFacts(spec, shapeless.outputs)),
    notes: [...(found.notes ?? []), ...notes, ...(named ?? [])],
    images: reading.images,
    config: [...axisLines(proposed), ...reading.config],
    check: {
      loads: true,
      runs: notRun === undefined,
      reference: reference ? 'agrees' : 'none given',
      nan: Object.fromEntries(nan),
    },
    verification,
    measured: {
      at: new Date().toISOString(),
      importMs: Math.round(performance.now() - start),
      loadMs: measured.loadMs,
      ...(measured.latencyP50Ms === undefined ? {} : { latencyP50Ms: measured.latencyP50Ms }),
      memoryGrowthBytes: measured.memoryGrowthBytes,
      memoryPeakBytes: measured.memoryPeakBytes,
      ...memoryFacts(report, shapeless),
      ...(errors ? { referenceMaxError: Object.fromEntries(errors) } : {}),
      machine: machineFacts(measured.threads),
      lambda,
    },
  };
}

function flavorOf({ mlflow }: FoundModel): Pick<ImportReport['source'], 'mlflow'> {
  return mlflow ? { mlflow: { flavor: mlflow.flavor, path: mlflow.path } } : {};
}

/** With the batch axes that the import proposes, where the job sets none. */
function withAxes(job: JobConfig, verification: Verification | undefined): JobConfig {
  const { inputAxes = {} } = verification?.batching ?? {};
  const proposed = Object.entries(inputAxes).map(([name, batchAxis]) => [name, { batchAxis }] as const);
  return { ...job, inputs: { ...Object.fromEntries(proposed), ...job.inputs } };
}

/** Includes the shapes only if others are possible. */
function memoryFacts({ inputs, measured: { memory } }: CheckReport, shapeless: Shapeless) {
  if (!memory) return {};
  const isOpen = hasFreeSizes(inputs) || shapeless.inputs.length > 0;
  return { memoryByRows: memory.points, ...(isOpen ? { memoryShapes: memory.shapes } : {}) };
}
