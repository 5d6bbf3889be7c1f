/**
 * Models of nine formats become verified ONNX. What takes long to load is loaded by the call that needs it; nothing here loads
 * onnxruntime, which runs in a process of its own.
 *
 * All functions that read a model throw an ImportError with code `bad_model` and a message that names the file, what was
 * expected and what to do; `bad_config` where an option is at fault; what the given signal says when it is aborted.
 */
import type { Verification } from '../lib/contract/verification.ts';
import type { CheckOptions } from './check/check.ts';
import type { CheckReport } from './check/run.ts';
import type { Choice } from './files/variants.ts';
import type { Imported, ImportOptions } from './import/import.ts';
import type { Found } from './import/stages.ts';
import type { OnnxFacts } from './onnx/facts.ts';
import type { Exportable, Exported, ExportOptions } from './python/export.ts';
import type { FileFacts } from './source/sources.ts';
import type { VerifyOptions } from './verify/verify.ts';

export { type ErrorCode, ServingError as ImportError } from '../lib/contract/errors.ts';
export type { TensorSpec } from '../lib/contract/values.ts';
export type { Verification } from '../lib/contract/verification.ts';
export { axisLines, proposedAxes } from './batching/axis-proposal.ts';
export type { ProofOptions } from './batching/verdict.ts';
export type { CheckOptions } from './check/check.ts';
export type { MemoryPoint } from './check/memory.ts';
export type { CheckReport } from './check/run.ts';
export { converterHash } from './converter-hash.ts';
export { readNpy } from './files/npy.ts';
export type { Choice } from './files/variants.ts';
export type { Convert } from './formats/convert.ts';
export { type SupportedOps, supportedOps as supported, supportedOpsText } from './formats/supported.ts';
export type { Accepted, Imported, ImportOptions } from './import/import.ts';
export { uselessOptions } from './import/options.ts';
export { type Found, MODEL_FILE, type Reported, STAGES, type Stage } from './import/stages.ts';
export type { OnnxFacts } from './onnx/facts.ts';
export { takesPicturesOfAnySize } from './onnx/picture-size.ts';
export type { ModelProcess } from './process/model-process.ts';
export type { Exportable, Exported, ExportOptions } from './python/export.ts';
export { layoutOf, type SaidPreprocessing, takesImages } from './report/image-reading.ts';
export {
  configLines,
  type ImportReport,
  importReportText,
  referenceProblem,
} from './report/import-report.ts';
export { neededMB } from './report/lambda-fit.ts';
export { machineFacts } from './report/machine.ts';
export { isReportFile, reportPath } from './report/report-file.ts';
export type { SampleRequest, ServiceWords } from './report/sample-text.ts';
export type { Tolerance } from './samples/compare.ts';
export type { GivenShapes } from './samples/given-sizes.ts';
export { type Filling, FREE_SIZES, madeUpInputs } from './samples/inputs.ts';
export { adviceOn } from './source/advice/no-model.ts';
export { type Candidate, candidatesIn, weightsOf } from './source/candidates.ts';
export type { ConvertOptions } from './source/convert-options.ts';
export {
  type HubDigest,
  type HubOrigin,
  type ListedFile,
  ORIGIN_FILE,
  readOrigin,
  type StoredOrigin,
} from './source/hub-origin.ts';
export { isOnnx, KINDS, type ModelKind } from './source/kinds.ts';
export type { FileFacts } from './source/sources.ts';
export { CONFIG_FILES } from './text/folder.ts';
export { SENTENCES } from './text/prompts.ts';
export type { VerifyOptions } from './verify/verify.ts';
export { type Fields, fieldsOf } from './vision/fields.ts';
export { besideReader, folderImage } from './vision/folder.ts';
export { preparedText } from './vision/text.ts';

/** Finds the one model in a directory: its kind and its files. */
export async function detect(directory: string, choice: Choice = {}): Promise<Found> {
  const { detectModel } = await import('./source/detect.ts');
  return detectModel(directory, choice);
}

/** Whether the directory holds something other than one ONNX model that can be used unchanged. Never throws. */
export async function needsImport(directory: string, choice: Choice = {}): Promise<boolean> {
  return (await import('./source/detect.ts')).needsImport(directory, choice);
}

/**
 * Imports the model in a directory: converts it to `model.onnx` in the directory `out`, runs it, compares it with its
 * reference, proves whether records may share a run, and writes its names and its report. `out` appears whole or not at all.
 */
export async function importModel(directory: string, options: ImportOptions): Promise<Imported> {
  return (await import('./import/import.ts')).importModel(directory, options);
}

/** Like importModel, for a model that was found, and an output that is known to be free. */
export async function importFound(found: Found, options: ImportOptions): Promise<Imported> {
  return (await import('./import/import.ts')).importFound(found, options);
}

/** Finds the file that the exporter of its own framework makes ONNX of, in Python. */
export async function exportable(path: string): Promise<Exportable> {
  return (await import('./python/export.ts')).exportable(path);
}

/**
 * Installs the exporter into an environment that is thrown away, runs it, and calls `work` with what it made. A file that
 * `isCode` runs whatever is in it, as the user: ask first.
 */
export async function withExport<T>(
  exported: Exportable,
  options: ExportOptions,
  work: (made: Exported) => Promise<T>,
): Promise<T> {
  return (await import('./python/export.ts')).withExport(exported, options, work);
}

/** Runs an ONNX file on made-up inputs, and on its reference where there is one: what it takes, how long and how much. */
export async function check(file: string, options: CheckOptions = {}): Promise<CheckReport> {
  return (await import('./check/check.ts')).checkOnnx(file, options);
}

/**
 * Decides whether records may share a run of an ONNX file, and which of onnxruntime's rewrites have to be off because they
 * change its answers.
 */
export async function verify(file: string, options: VerifyOptions = {}): Promise<Verification> {
  return (await import('./verify/verify.ts')).verifyModel(file, options);
}

/** Whether `known` holds for this machine and these options, so that verify returns it. */
export async function isVerified(
  options: Pick<VerifyOptions, 'known' | 'batchAxes' | 'maxRows'>,
): Promise<boolean> {
  return (await import('./verify/verify.ts')).isKnown(options);
}

/** What an ONNX file says of itself, without running it. */
export async function readFacts(file: string): Promise<OnnxFacts> {
  return (await import('./onnx/facts.ts')).readOnnxFacts(file);
}

/** With its external weights. */
export async function modelBytes(file: string, externalFiles: readonly string[]): Promise<number> {
  return (await import('./samples/work.ts')).modelBytes(file, externalFiles);
}

/** Sizes and SHA-256 of files. @param paths relative to the directory */
export async function fileFacts(directory: string, paths: readonly string[]): Promise<FileFacts[]> {
  return (await import('./source/sources.ts')).fileFacts(directory, paths);
}
