/** Gathers what an import found out into its report. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_JOB } from '../lib/config/job.ts';
import { IMAGE_FILE } from '../lib/registry/image-file.ts';
import { NAMES_FILE } from '../lib/registry/names.ts';
import { axisLines } from './axis-proposal.ts';
import type { ProofOptions } from './batching/verdict.ts';
import type { GivenShapes } from './check/given-sizes.ts';
import { hasFreeSizes } from './check/inputs.ts';
import type { ModelProcess } from './check/model-process.ts';
import type { CheckReport } from './check/run.ts';
import type { ConvertOptions } from './conversion.ts';
import type { FoundModel } from './detect.ts';
import { type ImageReading, readImages } from './image-reading.ts';
import { type ImportReport, type PortFacts, portFacts } from './import-report.ts';
import { lambdaFit } from './lambda-fit.ts';
import { machineFacts } from './machine.ts';
import { type MadeModel, MODEL_FILE, type Shapeless } from './made-model.ts';
import { writeNames } from './names.ts';
import { readOnnx } from './onnx/facts.ts';
import { onnxLabels } from './onnx/labels.ts';
import { type Origins, originOf } from './origin.ts';
import { saidPreprocessing } from './preprocessing.ts';
import { fileFacts } from './sources.ts';
import { verifyModel } from './verify/verify.ts';
import type { Message } from './wire/table.ts';

interface ReportOptions {
  readonly version: string;
  readonly convert?: ConvertOptions | undefined;
  readonly proof?: ProofOptions | undefined;
  /** How pictures are prepared, where the folder says it. */
  readonly prepared?: ImportReport['prepared'];
  /** Of inputs, where an ONNX file leaves them free. */
  readonly sizes: GivenShapes;
  readonly onStage?: ((stage: 'verifying') => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly process: ModelProcess;
}

/** Writes the names of columns and classes, too, and verifies the model. */
export async function importReportOf(
  found: FoundModel,
  folder: string,
  { facts, report, rewrites, proposed, shapeless, sources, notes, image, names, isFreed, text }: MadeModel,
  options: ReportOptions,
  start: number,
): Promise<ImportReport> {
  const file = join(folder, MODEL_FILE);
  const model = readOnnx(file);
  const seen = seenByCallers(report, text);
  const named = await writeNames(found, folder, onnxLabels(model), names, seen);
  const { prepared } = options;
  if (prepared) await writeFile(join(folder, IMAGE_FILE), `${JSON.stringify(prepared.image)}\n`);
  const files = await fileFacts(folder, [
    MODEL_FILE,
    ...facts.externalFiles,
    ...(text?.files ?? []),
    ...(named.isWritten ? [NAMES_FILE] : []),
    ...(prepared ? [IMAGE_FILE] : []),
  ]);
  const bytes = files.reduce((sum, one) => sum + one.bytes, 0);
  const reading = readImages(report.inputs, image, prepared?.image);
  const images = prepared ? reading.images : reading.images.map((one) => withSaid(one, model));
  options.onStage?.('verifying');
  const { proof = {}, sizes, signal, process } = options;
  // No record reaches such a model without these axes, so the verdict is about them.
  const batchAxes = { ...proposed, ...proof.batchAxes };
  const verify = { ...proof, batchAxes, rewrites, sizes, signal, process };
  const verification = await verifyModel(file, verify);
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
    inputs: inputFacts(report, shapeless, { kind: found.kind, options: options.convert ?? {}, isFreed }),
    outputs: report.outputs.map((spec) => portFacts(spec, shapeless.outputs)),
    notes: [...(found.notes ?? []), ...notes, ...named.notes],
    images,
    ...(prepared && { prepared }),
    config: [...axisLines(proposed), ...reading.config, ...batchLines(found)],
    check: {
      loads: true,
      runs: report.notRun === undefined,
      reference: report.reference ? 'agrees' : 'none given',
      nan: nanOf(report),
    },
    verification,
    measured: measuredFacts(report, shapeless, bytes, start),
  };
}

/** As Triton gives the model at most so many rows. */
function batchLines({ triton }: FoundModel): string[] {
  const most = triton?.maxBatchSize ?? 0;
  return most > 0 && most !== DEFAULT_JOB.batchSize ? [`batchSize: ${most}`] : [];
}

function flavorOf({ mlflow }: FoundModel): Pick<ImportReport['source'], 'mlflow'> {
  return mlflow ? { mlflow: { flavor: mlflow.flavor, path: mlflow.path } } : {};
}

function inputFacts({ inputs }: CheckReport, shapeless: Shapeless, origins: Origins): PortFacts[] {
  return inputs.map((spec) => ({
    ...portFacts(spec, shapeless.inputs),
    origin: originOf(spec, shapeless.inputs.includes(spec.name), origins),
  }));
}

function nanOf({ produced }: CheckReport): Readonly<Record<string, number>> {
  const counts = produced.filter(({ nan }) => nan > 0).map(({ name, nan }) => [name, nan] as const);
  return Object.fromEntries(counts);
}

/** The net's own data layer counts before other files. */
function withSaid(image: ImageReading, model: Message): ImageReading {
  const said = image.numbers ? undefined : saidPreprocessing(model, image);
  return said ? { ...image, said } : image;
}

/** With a model of texts, what callers see in place of token ids and hidden states: its classes, if it has any. */
function seenByCallers(report: CheckReport, text: MadeModel['text']): CheckReport {
  if (!text) return report;
  return { ...report, inputs: [], outputs: text.classes ? [text.classes] : [], produced: [] };
}

function measuredFacts(
  report: CheckReport,
  shapeless: Shapeless,
  bytes: number,
  start: number,
): ImportReport['measured'] {
  const { measured, reference } = report;
  const errors = reference?.outputs.map((output) => [output.name, output.maxError] as const);
  return {
    at: new Date().toISOString(),
    importMs: Math.round(performance.now() - start),
    loadMs: measured.loadMs,
    ...(measured.latencyP50Ms === undefined ? {} : { latencyP50Ms: measured.latencyP50Ms }),
    memoryGrowthBytes: measured.memoryGrowthBytes,
    memoryPeakBytes: measured.memoryPeakBytes,
    ...memoryFacts(report, shapeless),
    ...(errors ? { referenceMaxError: Object.fromEntries(errors) } : {}),
    machine: machineFacts(measured.threads),
    lambda: lambdaFit(bytes, measured.memory),
  };
}

/** Includes the shapes only if others are possible. */
function memoryFacts({ inputs, measured: { memory } }: CheckReport, shapeless: Shapeless) {
  if (!memory) return {};
  const isOpen = hasFreeSizes(inputs) || shapeless.inputs.length > 0;
  return { memoryByRows: memory.points, ...(isOpen ? { memoryShapes: memory.shapes } : {}) };
}
