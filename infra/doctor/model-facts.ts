/** Describes a model directory by the names, sizes and first bytes of its files; `model check` tests whether it loads. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { isInS3 } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { bytesPerElement, isNumericDType } from '../../lib/contract/tensor.ts';
import type { MemoryPoint } from '../../onnx-import/check/memory.ts';
import { detectModel } from '../../onnx-import/detect.ts';
import type { Choice } from '../../onnx-import/layout/variants.ts';
import { isReportFile, reportPath } from '../../onnx-import/report-file.ts';
import type { ImportFacts, ModelFacts } from './rule.ts';
import { listOf, numberOf, recordOf, textOf } from './template.ts';

const MAX_FILES = 10_000;
const MAX_REPORT_BYTES = 4 * 1024 * 1024;
/** The growth of tensors by base64. */
const BASE64 = 4 / 3;

/**
 * @param directory absolute, or an address in S3
 * @param anyFiles whether it is a worker's, who needs no model and knows its own files
 */
export async function readModelFacts(
  directory: string,
  { anyFiles = false, choice = {} }: { readonly anyFiles?: boolean; readonly choice?: Choice } = {},
): Promise<ModelFacts> {
  if (isInS3(directory)) return { state: 'remote', directory };
  const found = await stat(directory).catch(() => undefined);
  if (anyFiles && !found?.isDirectory()) return { state: 'unneeded', directory, bytes: 0 };
  if (!found) return { state: 'missing', directory };
  try {
    const fileBytes = found.isFile() ? { [basename(directory)]: found.size } : await sizesIn(directory);
    const bytes = Object.values(fileBytes).reduce((sum, size) => sum + size, 0);
    if (anyFiles) return { state: 'unneeded', directory, bytes };
    const { kind } = await detectModel(directory, choice);
    const importReport = await readImportReport(directory);
    return { state: 'found', directory, kind, bytes, fileBytes, ...importReport };
  } catch (error) {
    return { state: 'unusable', directory, problem: ServingError.from(error).message };
  }
}

async function sizesIn(directory: string): Promise<Record<string, number>> {
  const names = (await readdir(directory, { recursive: true })).slice(0, MAX_FILES);
  const sizes: Record<string, number> = {};
  for (const name of names) {
    if (isReportFile(name)) continue;
    const found = await stat(join(directory, name)).catch(() => undefined);
    if (found?.isFile()) sizes[name] = found.size;
  }
  return sizes;
}

interface ReportReading {
  readonly importReport: ImportFacts | undefined;
  readonly importReportProblem: string | undefined;
}

async function readImportReport(directory: string): Promise<ReportReading> {
  const refused = (importReportProblem: string) => ({ importReport: undefined, importReportProblem });
  const path = reportPath(directory);
  const found = await stat(path).catch(() => undefined);
  if (!found) return { importReport: undefined, importReportProblem: undefined };
  if (found.size > MAX_REPORT_BYTES)
    return refused(`${found.size} bytes, over the limit of ${MAX_REPORT_BYTES}`);
  try {
    const importReport = importFactsOf(JSON.parse(await readFile(path, 'utf8')));
    return importReport
      ? { importReport, importReportProblem: undefined }
      : refused('it does not say the memory and the file');
  } catch (error) {
    return refused(`it cannot be read: ${(error as Error).message}`);
  }
}

/** Undefined if a field that the rules need is missing. */
export function importFactsOf(document: unknown): ImportFacts | undefined {
  const { measured, model, inputs, images } = recordOf(document);
  const { memoryMB: said, ...lambda } = recordOf(recordOf(measured)['lambda']);
  const memoryMB = numberOf(said);
  const [first] = listOf(recordOf(model)['files']).map(recordOf);
  const modelFileBytes = numberOf(first?.['bytes']);
  // An import that could not run the model writes null.
  if ((memoryMB === undefined && said !== null) || first === undefined || modelFileBytes === undefined)
    return undefined;
  const takesPictures = listOf(images).length > 0;
  return {
    memoryMB,
    ...memoryOf(listOf(recordOf(measured)['memoryByRows']), lambda),
    latencyMs: numberOf(recordOf(measured)['latencyP50Ms']),
    modelFile: textOf(first['path']),
    modelFileBytes,
    recordBytes: takesPictures ? undefined : recordBytes(listOf(inputs)),
  };
}

function memoryOf(byRows: readonly unknown[], lambda: Readonly<Record<string, unknown>>) {
  const points = byRows.map(recordOf).flatMap(({ rows, peakBytes }) => {
    const point = { rows: numberOf(rows), peakBytes: numberOf(peakBytes) };
    return point.rows === undefined || point.peakBytes === undefined ? [] : [point as MemoryPoint];
  });
  if (points.length === 0) return {};
  const rows = numberOf(lambda['rows']);
  const isWhole = numberOf(lambda['batchSize']) === undefined;
  // Fewer rows than the default batchSize: the model or the size of its rows allows no more.
  const isMost = isWhole && rows !== undefined && rows < DEFAULT_JOB.batchSize;
  return { memory: { points, mostRows: isMost ? rows : undefined } };
}

/** A record has one row of the batch axis. Undefined if another axis is dynamic or the shape is missing. */
function recordBytes(inputs: readonly unknown[]): number | undefined {
  let total = 0;
  for (const input of inputs) {
    const { dtype, shape } = recordOf(input);
    const element = textOf(dtype);
    const sizes = listOf(shape)
      .slice(1)
      .map((size) => (typeof size === 'number' ? size : undefined));
    if (!isNumericDType(element) || !Array.isArray(shape) || sizes.includes(undefined)) return undefined;
    total += sizes.reduce<number>((product, size) => product * (size as number), bytesPerElement(element));
  }
  return Math.ceil(total * BASE64);
}
