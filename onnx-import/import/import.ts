/**
 * Imports a model directory of any supported kind: writes the model as ONNX with its import report and checks it by running
 * it. Everything is made in a temporary folder that is renamed last, so the output appears whole or not at all.
 */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel, ServingError, withPathAs } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import { readModel } from '../batching/model.ts';
import type { ProofOptions } from '../batching/verdict.ts';
import type { CheckOptions } from '../check/check.ts';
import type { Convert } from '../formats/convert.ts';
import { joinOnnx } from '../onnx/join/join.ts';
import { writeParts } from '../onnx/write.ts';
import { ModelProcess } from '../process/model-process.ts';
import { type ImportReport, importReportText } from '../report/import-report.ts';
import { REPORT_FILE, REPORT_TEXT_FILE } from '../report/report-file.ts';
import type { ServiceWords } from '../report/sample-text.ts';
import type { GivenShapes } from '../samples/given-sizes.ts';
import type { ConvertOptions } from '../source/convert-options.ts';
import { detectModel } from '../source/detect.ts';
import { isOnnx } from '../source/kinds.ts';
import { tritonSizes } from '../source/triton.ts';
import { folderImage } from '../vision/folder.ts';
import { checkConverted, verifyChecked } from './check.ts';
import { convertFound } from './convert.ts';
import { fitImage } from './fit-image.ts';
import { assertUsed, withShapes } from './options.ts';
import { assertOutput, type Output, takeOver, temporaryBeside } from './output-folder.ts';
import { sizesOfPictures } from './picture-sizes.ts';
import { reportVerified } from './report.ts';
import {
  type Found,
  type JoinedSource,
  MODEL_FILE,
  type Pictures,
  type Reported,
  type Stage,
  type Workshop,
} from './stages.ts';
import { VERSION } from './version.ts';

export interface ImportOptions
  extends Output,
    Pick<CheckOptions, 'limitMs' | 'measure' | 'process' | 'reference' | 'tolerance'> {
  readonly convert?: ConvertOptions | undefined;
  /** What the verification is made for: the most rows of a run, and batch axes. Default: 32 rows, the first axis. */
  readonly proof?: ProofOptions | undefined;
  /** Settings of pictures that win over those of the files beside the model. */
  readonly image?: ImageChoice | undefined;
  /** Names of files beside the model whose advice is not followed, such as preprocessor_config.json. */
  readonly ignore?: readonly string[] | undefined;
  /** Lines of the report in front of those that the import writes. */
  readonly notes?: readonly string[] | undefined;
  /** The version that is recorded as the converter's. Default: that of this package. */
  readonly version?: string | undefined;
  /** Called at each stage, and with the progress of a long one, in bytes. */
  readonly onStage?: ((stage: Stage, done?: number, total?: number) => void) | undefined;
  /** Cancels between stages, while writing and while checking; nothing is left behind. */
  readonly signal?: AbortSignal | undefined;
  /** The service that is to serve the model: the report says what it needs there, and advice names its settings. */
  readonly service?: ServiceWords | undefined;
  /** Replaces the built-in converters. */
  readonly converter?: Convert | undefined;
  /** Refuses by throwing what was found, before anything is made of it. */
  readonly inspect?: ((found: Found) => Promise<void>) | undefined;
  /** Has the last word on a finished import: refuses it by throwing, or adds to what is written of it. */
  readonly accept?: ((reported: Reported) => Promise<Accepted>) | undefined;
}

/** In the advice of all that reads a folder. */
const INTO_SETTINGS = 'into the settings';

/** Is gone at the end of an import. */
const JOINED_FILE = 'joined.onnx';

export interface Accepted {
  readonly importReport: ImportReport;
  /** Lines at the end of the report's text. */
  readonly lines: readonly string[];
}

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
  const found = withNotes(await detectModel(directory, options.convert), options.notes);
  const given = { ...options, convert: withShapes(found.kind, options.convert ?? {}) };
  assertUsed(found.kind, given.convert);
  await assertOutput(options, found.home);
  return importFound(found, given);
}

function withNotes(found: Found, notes: readonly string[] = []): Found {
  return notes.length > 0 ? { ...found, notes: [...notes, ...(found.notes ?? [])] } : found;
}

/** Like importModel, for a model and an output that were checked already. */
export async function importFound(found: Found, options: ImportOptions): Promise<Imported> {
  const { accept = acceptAll, process = new ModelProcess(), version = VERSION, ...asked } = options;
  const startMs = performance.now();
  options.signal?.throwIfAborted();
  await options.inspect?.(found);
  const pictures = await picturesOf(found, options);
  const folder = await temporaryBeside(options.out);
  try {
    const joined = await joinedSource(found, folder, pictures);
    const sizes = sizesOf(found, options, pictures, joined);
    const workshop: Workshop = { ...asked, version, folder, process, startMs, pictures, sizes, joined };
    const converted = await convertFound(found, workshop);
    const checked = await checkConverted(converted, workshop);
    const verified = await verifyChecked(checked, workshop);
    const reported = await reportVerified(verified, workshop);
    const accepted = await accept(reported);
    await writeReport(folder, accepted, options.service);
    return { directory: await takeOver(folder, options), importReport: accepted.importReport };
  } catch (error) {
    throw inWordsOf(options.service, withoutFolder(ServingError.from(error), folder, found));
  } finally {
    if (!options.process) process.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Two files in a row as one. */
async function joinedSource(
  { before, directory, files }: Found,
  folder: string,
  pictures: Pictures | undefined,
): Promise<JoinedSource | undefined> {
  if (before === undefined) return undefined;
  const file = elementAt(files, 0, 'files');
  if (pictures)
    throw badModel(
      `${pictures.source} says how pictures are prepared, and ${before} runs before ${file}: which of them prepares the pictures? If it is ${before}, import: {ignore: [${pictures.source}]} ${INTO_SETTINGS}; if not, leave out --before`,
    );
  const { model, notes } = await joinOnnx(directory, before, file);
  const path = join(folder, JOINED_FILE);
  await writeParts(path, model.parts);
  return { path, notes };
}

async function acceptAll({ importReport }: Reported): Promise<Accepted> {
  return { importReport, lines: [] };
}

async function writeReport(
  folder: string,
  { importReport, lines }: Accepted,
  service: ServiceWords | undefined,
): Promise<void> {
  await writeFile(join(folder, REPORT_FILE), `${JSON.stringify(importReport, undefined, 2)}\n`);
  const text = [importReportText(importReport, service), ...lines, ''];
  await writeFile(join(folder, REPORT_TEXT_FILE), text.join('\n'));
}

async function picturesOf(
  { home, beside }: Found,
  { image = {}, ignore }: ImportOptions,
): Promise<Pictures | undefined> {
  const said = await folderImage(beside, { ignore });
  return said && { source: said.source, fit: (inputs) => fitImage(home, said, inputs, { image }) };
}

/** A converted model has the sizes that were given; of an ONNX model they are for the check, and so are those of its pictures. */
function sizesOf(
  { kind, directory, files, triton }: Found,
  { convert: { inputShapes } = {}, image = {} }: ImportOptions,
  pictures: Pictures | undefined,
  joined: JoinedSource | undefined,
): GivenShapes {
  if (!isOnnx(kind)) return undefined;
  const file = joined?.path ?? join(directory, elementAt(files, 0, 'files'));
  const ofPictures = pictures && sizesOfPictures(file, pictures.fit, image);
  const said = triton && tritonSizes(triton, readModel(file).graph);
  return ofPictures || said ? { ...said, ...ofPictures, ...inputShapes } : inputShapes;
}

/** Advice names the settings of the service, if there is one. */
function inWordsOf(service: ServiceWords | undefined, error: unknown): unknown {
  return service ? withPathAs(error, INTO_SETTINGS, `into ${service.settings}`) : error;
}

/** onnxruntime names the file that it was given, whose folder is gone when the message is read. */
function withoutFolder(error: unknown, folder: string, { kind, directory, files, archive }: Found) {
  const isOwn = isOnnx(kind);
  const shown = isOwn ? join(directory, elementAt(files, 0, 'files')) : 'the converted model';
  const named = withPathAs(error, join(folder, MODEL_FILE), shown);
  const shownOnly = withPathAs(named, folder, isOwn ? directory : 'the folder of the converted model');
  return archive ? withPathAs(shownOnly, archive.folder, archive.path) : shownOnly;
}
