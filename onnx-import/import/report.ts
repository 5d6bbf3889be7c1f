/** Verified -> Reported: stores the names of columns and classes, and gathers what the import found out. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { IMAGE_FILE } from '../../lib/registry/image-file.ts';
import { NAMES_FILE } from '../../lib/registry/names.ts';
import { axisLines } from '../batching/axis-proposal.ts';
import type { CheckReport } from '../check/run.ts';
import { readOnnx } from '../onnx/facts.ts';
import { onnxLabels } from '../onnx/labels.ts';
import { type ImageReading, readImages } from '../report/image-reading.ts';
import { type ImportReport, type PortFacts, portFacts } from '../report/import-report.ts';
import { lambdaFit } from '../report/lambda-fit.ts';
import { machineFacts } from '../report/machine.ts';
import { type Origins, originOf } from '../report/origin.ts';
import { saidPreprocessing } from '../report/preprocessing.ts';
import { hasFreeSizes } from '../samples/inputs.ts';
import type { FoundModel } from '../source/detect.ts';
import { readOrigin } from '../source/hub-origin.ts';
import { fileFacts } from '../source/sources.ts';
import type { Message } from '../wire/table.ts';
import { writeNames } from './names.ts';
import { MODEL_FILE, type Reported, type Shapeless, type Verified, type Workshop } from './stages.ts';

export async function reportVerified(verified: Verified, workshop: Workshop): Promise<Reported> {
  const { found, facts, report, shapeless, sources, notes, image, names, isFreed, text } = verified;
  const { folder, version, convert: options = {}, startMs, sizes } = workshop;
  const { pictures } = workshop;
  const prepared = pictures && { source: pictures.source, image: pictures.fit(report.inputs) };
  if (prepared) await writeFile(join(folder, IMAGE_FILE), `${JSON.stringify(prepared.image)}\n`);
  const model = readOnnx(join(folder, MODEL_FILE));
  const named = await writeNames(found, folder, onnxLabels(model), names, seenByCallers(report, text));
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
  const importReport: ImportReport = {
    version: 1,
    converter: { name: 'onnx-import', version },
    source: {
      format: found.kind,
      files: await fileFacts(found.directory, [...sources].sort()),
      ...flavorOf(found),
      ...hubOf(found),
    },
    options,
    model: { file: MODEL_FILE, opset: facts.opset, irVersion: facts.irVersion, files, bytes },
    inputs: inputFacts(report, shapeless, { kind: found.kind, options, isFreed }),
    outputs: report.outputs.map((spec) => portFacts(spec, shapeless.outputs)),
    notes: [...(found.notes ?? []), ...notes, ...named.notes],
    images,
    ...(prepared && { prepared }),
    config: [...axisLines(verified.proposed), ...reading.config, ...batchLines(found)],
    check: {
      loads: true,
      runs: report.notRun === undefined,
      reference: report.reference ? 'agrees' : 'none given',
      nan: nanOf(report),
    },
    verification: verified.verification,
    measured: measuredFacts(report, shapeless, bytes, startMs),
  };
  return { found, folder, sizes, importReport };
}

/** Rows of a run unless another number is asked for. */
const USUAL_ROWS = 32;

/** As Triton gives the model at most so many rows. */
function batchLines({ triton }: FoundModel): string[] {
  const most = triton?.maxBatchSize ?? 0;
  return most > 0 && most !== USUAL_ROWS ? [`batchSize: ${most}`] : [];
}

function flavorOf({ mlflow }: FoundModel): Pick<ImportReport['source'], 'mlflow'> {
  return mlflow ? { mlflow: { flavor: mlflow.flavor, path: mlflow.path } } : {};
}

function hubOf({ home }: FoundModel): Pick<ImportReport['source'], 'hub'> {
  const { repo, commit } = readOrigin(home) ?? {};
  return repo === undefined || commit === undefined ? {} : { hub: { repo, commit } };
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
function seenByCallers(report: CheckReport, text: Verified['text']): CheckReport {
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
