/**
 * The record of an import, as import-report.json and as text. Two imports of one model must give the same import report, so
 * whatever differs from run to run is under `measured`.
 */
import { formatShape } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { verificationNotes } from '../../lib/contract/verification-text.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import type { MemoryPoint } from '../check/memory.ts';
import type { CheckReport } from '../check/run.ts';
import type { ConvertOptions } from '../source/convert-options.ts';
import type { HubOrigin } from '../source/hub-origin.ts';
import { KINDS, type ModelKind } from '../source/kinds.ts';
import type { FileFacts } from '../source/sources.ts';
import type { ImageReading } from './image-reading.ts';
import { type LambdaFit, lambdaText } from './lambda-fit.ts';
import type { machineFacts } from './machine.ts';
import { originText, type PortOrigin } from './origin.ts';
import { type SampleRequest, type ServiceWords, sampleLines } from './sample-text.ts';

export interface PortFacts {
  readonly name: string;
  readonly dtype: string;
  /** A text is a free size. Null: the model declares no shape, not even a rank. */
  readonly shape: readonly (number | string)[] | null;
  /** Axes whose size is free, with its name. */
  readonly dynamicAxes: Readonly<Record<number, string>>;
  /** The source of each of these; outputs have none. */
  readonly origin?: PortOrigin;
}

export interface ImportReport {
  /** Of this document. */
  readonly version: 1;
  readonly converter: { readonly name: 'onnx-import'; readonly version: string };
  readonly source: {
    readonly format: ModelKind;
    readonly files: readonly FileFacts[];
    /** Of a directory of MLflow: the flavor that was imported, and its file or folder. */
    readonly mlflow?: { readonly flavor: string; readonly path: string };
    /** Of a model from the hub of Hugging Face. */
    readonly hub?: HubOrigin;
  };
  readonly options: ConvertOptions;
  readonly model: {
    readonly file: string;
    readonly opset: number;
    readonly irVersion: number;
    /** The model's file first, then its external weights. */
    readonly files: readonly FileFacts[];
    readonly bytes: number;
  };
  readonly inputs: readonly PortFacts[];
  readonly outputs: readonly PortFacts[];
  readonly notes: readonly string[];
  /** Inputs that take pictures. */
  readonly images: readonly ImageReading[];
  /** How the folder says that pictures are prepared, as it is stored with the model. */
  readonly prepared?: { readonly source: string; readonly image: ImageChoice };
  /** Lines for config.yaml that the model needs; empty when the defaults do. */
  readonly config: readonly string[];
  /** Absent where nothing that can be pasted was answered. */
  readonly sample?: SampleRequest;
  readonly check: {
    readonly loads: true;
    /** False: no made-up inputs fit. */
    readonly runs: boolean;
    readonly reference: 'agrees' | 'none given';
    /** NaN in the outputs of made-up inputs, by output. */
    readonly nan: Readonly<Record<string, number>>;
  };
  /** Absent in reports of earlier versions. */
  readonly verification?: Verification;
  readonly measured: {
    /** ISO 8601. */
    readonly at: string;
    readonly importMs: number;
    readonly loadMs: number;
    readonly latencyP50Ms?: number;
    readonly memoryGrowthBytes: number;
    readonly memoryPeakBytes: number;
    /** The largest the process was, by rows of a run; absent when nothing was run. */
    readonly memoryByRows?: readonly MemoryPoint[];
    /** Of the rows that were run, by input, where a size is free: larger ones take more. */
    readonly memoryShapes?: readonly (readonly number[])[];
    readonly referenceMaxError?: Readonly<Record<string, number | null>>;
    /** The prediction for the sample. */
    readonly sampleAnswer?: string;
    readonly machine: ReturnType<typeof machineFacts>;
    readonly lambda: LambdaFit;
  };
}

export function portFacts({ name, dtype, shape }: TensorSpec, shapeless: readonly string[]): PortFacts {
  if (shapeless.includes(name)) return { name, dtype, shape: null, dynamicAxes: {} };
  const free = shape.map((dim, axis) => [axis, dim] as const).filter(([, dim]) => typeof dim === 'string');
  return { name, dtype, shape, dynamicAxes: Object.fromEntries(free) as Record<number, string> };
}

/**
 * What a person wants to know, in Markdown that also reads well in a terminal.
 * @param service adds what concerns the service that is to serve the model
 */
export function importReportText(importReport: ImportReport, service?: ServiceWords): string {
  const { source, model, measured, notes } = importReport;
  const config = configLines(importReport);
  const lines = [
    `# ${KINDS[source.format].title} -> ${model.file}`,
    '',
    `- from: ${source.files.map(({ path, bytes }) => `${path} (${sizeText(bytes)})`).join(', ')}`,
    ...(source.hub ? [`- hub: ${source.hub.repo}, commit ${source.hub.commit}`] : []),
    `- model: ${sizeText(model.bytes)}, opset ${model.opset}, sha256 ${model.files[0]?.sha256.slice(0, 12)}`,
    ...importReport.inputs.map((port) => `- input ${portText(port)}`),
    ...importReport.outputs.map((port) => `- output ${portText(port)}`),
    ...importReport.images.map(imageText),
    `- check: loads; ${runText(importReport)}`,
    ...Object.entries(importReport.check.nan).map(([name, count]) => `- NaN: ${count} in output "${name}"`),
    ...verificationNotes(importReport.verification).map((line) => `- verification: ${line}`),
    `- measured: ${measuredText(importReport)}`,
    ...(service ? [`- Lambda: ${lambdaText(measured.lambda)}${shapesText(measured)}`] : []),
    ...notes.map((note) => `- note: ${note}`),
  ];
  if (service && importReport.sample) {
    const sample = sampleLines(importReport.sample, measured.sampleAnswer ?? '', service);
    lines.push('', 'To ask it, once it is served:', '', '```sh', ...sample, '```');
  }
  if (service && config.length > 0)
    lines.push('', `For ${service.settings}:`, '', '```yaml', ...config, '```');
  return lines.join('\n');
}

/** All that config.yaml needs for this model, what follows from the measured memory included. */
export function configLines({ config, measured: { lambda } }: ImportReport): readonly string[] {
  const { fits, fitsDefault, batchSize, memoryMB } = lambda;
  // What does not fit has no settings that help; of what is unknown nothing is said.
  if (fitsDefault !== false || fits === false || memoryMB === null) return config;
  const rows = batchSize === null ? [] : [`batchSize: ${batchSize}`];
  const isSaid = config.some((line) => line.startsWith('batchSize:'));
  return [...config, ...(isSaid ? [] : rows), 'function:', `  memoryMB: ${memoryMB}`];
}

function portText({ name, dtype, shape, origin }: PortFacts): string {
  const from = originText(origin);
  if (shape === null) return `${name}: ${dtype}, shape not given${from}`;
  return `${name}: ${dtype} ${formatShape(shape.map((dim) => (dim === '' ? '?' : dim)))}${from}`;
}

function imageText({ input, layout, channels, height, width }: ImageReading): string {
  const size = height === undefined || width === undefined ? 'any size' : `${height} x ${width}`;
  return `- images: input "${input}" takes ${layout.toUpperCase()}, ${channels}, ${size}`;
}

/** What was run: made-up inputs, those of the reference, or nothing. */
function runText({ check, measured }: ImportReport): string {
  const errors = Object.entries(measured.referenceMaxError ?? {});
  const worst = errors.map(
    ([name, error]) => `${name} ${error === null ? 'not finite' : error.toExponential(1)}`,
  );
  if (check.reference === 'none given')
    return check.runs ? 'runs' : 'never run, because no made-up input was accepted';
  const equals = `equals its reference (largest error: ${worst.join(', ')})`;
  return check.runs
    ? `runs; ${equals}`
    : `runs on its reference alone, as no made-up input was accepted; ${equals}`;
}

function shapesText({ memoryShapes }: ImportReport['measured']): string {
  return memoryShapes ? `; larger inputs than ${memoryShapes.map(formatShape).join(', ')} take more` : '';
}

function measuredText({ check, measured }: ImportReport): string {
  const { latencyP50Ms, loadMs, memoryPeakBytes, memoryByRows, machine } = measured;
  const latency = check.runs ? ' ms a row (p50 of made-up rows), ' : ' ms (p50 of the reference), ';
  const run = latencyP50Ms === undefined ? '' : `${latencyP50Ms.toPrecision(3)}${latency}`;
  const memory = memoryByRows?.map(
    ({ rows, peakBytes }) => `+${sizeText(peakBytes)} (${rows} ${rows === 1 ? 'row' : 'rows'})`,
  );
  const rest = `loaded in ${loadMs.toFixed(0)} ms, memory ${memory?.join(', ') ?? `+${sizeText(memoryPeakBytes)}`}`;
  return `${run}${rest}; on this machine, in a process of its own, ${machine.threads} threads of ${machine.cpu}`;
}

function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const mega = bytes / (1024 * 1024);
  return mega < 1 ? `${(bytes / 1024).toFixed(1)} KB` : `${mega.toFixed(mega < 100 ? 1 : 0)} MB`;
}

/** The report of a reference that does not agree, as one sentence. */
export function referenceProblem({ reference }: CheckReport): string | undefined {
  if (!reference || reference.agrees) return undefined;
  const { atol, rtol } = reference.tolerance;
  const wrong = reference.outputs
    .filter(({ agrees }) => !agrees)
    .map(({ name, maxError, problem }) => {
      return `"${name}" ${problem ?? (maxError === null ? 'has other NaN or infinities' : `is off by ${maxError}`)}`;
    });
  return `the outputs are not those of the reference: ${wrong.join('; ')} (tolerated: ${atol} + ${rtol} of the value)`;
}
