/**
 * Detects the kind of model in a directory by the file names that the formats prescribe, or by what the MLmodel of MLflow
 * says. A directory with two models is refused.
 */
import { existsSync } from 'node:fs';
import { readdir, readlink, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { asError, badConfig, badModel, ServingError, withPathAs } from '../../lib/contract/errors.ts';
import { NAMES_FILE } from '../../lib/registry/names.ts';
import { readHead, shownNames, unreadable, wrongContent } from '../../lib/registry/onnx-file.ts';
import type { Choice } from '../files/variants.ts';
import { needsRewrite } from '../onnx/rewrite/rewrite.ts';
import { textModelFiles } from '../text/folder.ts';
import { besideReader, hasImageToStore, type ReadBeside } from '../vision/folder.ts';
import { kindByContent, otherContent } from './advice/content.ts';
import { adviceOnFolder } from './advice/folder.ts';
import { adviceOn, adviceOnContent } from './advice/no-model.ts';
import { weightFiles } from './bigdl-weights.ts';
import { chosenNets } from './caffe-nets.ts';
import { type Candidate, candidatesIn, weightsOf } from './candidates.ts';
import { KINDS, type ModelKind } from './kinds.ts';
import {
  assertWithin,
  isOfFlavor,
  MLMODEL,
  type MlflowFacts,
  noFlavor,
  pathOf,
  pathWithin,
  readMlmodel,
  unreadableFlavor,
} from './mlflow.ts';
import { type Archive, candidateAt, fileNames, type Place, placeOf } from './place.ts';
import { hasLabelsToStore } from './stored-labels.ts';
import { CONFIG_PBTXT, type TritonFacts } from './triton.ts';

export interface FoundModel {
  readonly kind: ModelKind;
  /** The folder of its files. Absolute. */
  readonly directory: string;
  /**
   * The directory that the user named, with what people put beside a model. The files of MLflow may lie further down.
   * Absolute.
   */
  readonly home: string;
  /** A tokenizer lies beside it. Default false. */
  readonly isText?: boolean;
  /** All files of the model, relative to the directory, with `/`, sorted. */
  readonly files: readonly string[];
  /** The ONNX file that runs before the model, among `files`. */
  readonly before?: string;
  /** What an MLmodel said. */
  readonly mlflow?: MlflowFacts;
  /** What the config.pbtxt of Triton says of it. */
  readonly triton?: TritonFacts;
  /** The archive that was unpacked, and where. */
  readonly archive?: Archive;
  /** For the import report. */
  readonly notes?: readonly string[];
  /** Reads what lies beside it, in `home`. */
  readonly beside: ReadBeside;
}

type ModelFiles = Omit<FoundModel, 'beside'>;

const MAX_ENTRIES = 10_000;

/**
 * @throws bad_model naming what was found and what was expected, unless the directory holds exactly one readable
 * model
 */
export async function detectModel(path: string, choice: Choice = {}): Promise<FoundModel> {
  const found = await modelFiles(path, choice);
  return { ...found, beside: besideReader(found.home) };
}

async function modelFiles(path: string, choice: Choice): Promise<ModelFiles> {
  const place = await placeOf(resolve(path), choice);
  const { archive } = place;
  if (!archive) return modelAt(place, choice);
  try {
    return { ...(await modelAt(place, choice)), archive };
  } catch (error) {
    throw withPathAs(ServingError.from(error), archive.folder, archive.path);
  }
}

async function modelAt(place: Place, choice: Choice): Promise<ModelFiles> {
  const found = await plainModelAt(place, choice);
  const { before } = choice;
  if (before === undefined) return found;
  const refuse = (why: string) => badConfig(`--before ${before}: ${why}`);
  if (found.kind !== 'onnx')
    throw refuse(`a file is joined to an ONNX model, and this is a model of ${KINDS[found.kind].title}`);
  if (found.mlflow) throw refuse(`${MLMODEL} says what the model takes; name the ONNX file itself`);
  const others = place.names.filter((name) => /\.onnx$/i.test(name) && !found.files.includes(name));
  if (!others.includes(before))
    throw refuse(
      `there is no such ONNX file beside ${found.files[0]}; found ${shownNames(others) || 'none'}`,
    );
  await assertContents(found.directory, found.kind, [before]);
  return { ...found, files: [...found.files, before], before };
}

async function plainModelAt(place: Place, choice: Choice): Promise<ModelFiles> {
  const { home, folder, names, notes, triton } = place;
  const more = { home, ...(triton && { triton }) };
  if (names.includes(MLMODEL) && place.only === undefined)
    return { ...(await mlflowModel(home, names)), ...more };
  const texts = place.only === undefined ? await textModelFiles(home, names, choice) : undefined;
  if (texts) {
    await assertContents(home, texts.kind, texts.files);
    return {
      kind: texts.kind,
      directory: home,
      home,
      isText: true,
      files: texts.files,
      notes: [...notes, ...texts.notes],
    };
  }
  const chosen = candidateAt(place, choice);
  if (!chosen) throw await nothing(home, names);
  const noted = [...notes, ...(chosen.note === undefined ? [] : [chosen.note])];
  const found = await modelOf(folder, chosen.item, names);
  return { ...found, ...more, ...(noted.length > 0 && { notes: noted }) };
}

async function modelOf(
  folder: string,
  { kind: named, file }: Candidate,
  names: readonly string[],
): Promise<ModelFiles> {
  const kind = await kindByContent(named, join(folder, file));
  const files = await sourceFiles(folder, kind, file, names);
  await assertContents(folder, kind, files);
  return { kind, directory: folder, home: folder, files };
}

/** The model of the first flavor whose files are of a format that is read. */
async function mlflowModel(home: string, beside: readonly string[]): Promise<ModelFiles> {
  const { readable, others } = readMlmodel((await pathWithin(home, MLMODEL)).full);
  const problems: string[] = [];
  for (const flavor of readable) {
    const { full, isFolder } = await pathWithin(home, flavor.path);
    const folder = isFolder ? full : dirname(full);
    let advice: string | undefined;
    // Keras' SavedModels lie one folder further down.
    for (const place of isFolder ? [folder, join(folder, 'model')] : [folder]) {
      const names = isFolder ? await fileNames(place).catch(() => []) : [basename(full)];
      const [candidate, ...more] = candidatesIn(names);
      if (candidate === undefined || more.length > 0 || !isOfFlavor(flavor.name, candidate.kind)) {
        advice ??= adviceOn(names);
        continue;
      }
      const files = await sourceFiles(place, candidate.kind, candidate.file, names);
      for (const file of files) await assertWithin(home, join(place, file));
      const model = await modelOf(place, candidate, names);
      const path = pathOf(home, candidate.kind === 'tf_saved_model' ? place : join(place, candidate.file));
      const note = `MLflow: the flavor ${flavor.name} of ${MLMODEL} was taken, ${path}`;
      return { ...model, home, mlflow: { flavor: flavor.name, path, ...flavor.facts }, notes: [note] };
    }
    problems.push(unreadableFlavor(flavor, advice));
  }
  const [candidate, ...more] = candidatesIn(beside);
  if (candidate === undefined || more.length > 0) throw noFlavor(home, [...problems, ...others]);
  // An export that a person put beside what cannot be imported.
  const note = `${candidate.file} was taken, which ${MLMODEL} does not name`;
  return { ...(await modelOf(home, candidate, beside)), notes: [note] };
}

/** Everything that is part of the model: what is hashed, and what the import report names. */
async function sourceFiles(
  folder: string,
  kind: ModelKind,
  file: string,
  names: readonly string[],
): Promise<string[]> {
  const matching = (pattern: RegExp) => names.filter((name) => pattern.test(name));
  switch (kind) {
    case 'onnx':
      // The names of its external weights are in the file itself (onnx-import/onnx/facts.ts).
      return [file];
    case 'tf_saved_model':
      return [file, ...(await below(folder, 'variables')), ...(await below(folder, 'assets'))].sort();
    case 'tf_frozen':
      return [file, ...matching(/^graph_meta\.json$/)].sort();
    case 'tf_checkpoint':
      return matching(/\.meta$|\.index$|\.data-\d+-of-\d+$|^checkpoint$|^graph_meta\.json$/);
    case 'caffe':
      return [...chosenNets(names), ...matching(/\.caffemodel$/i)].sort();
    case 'openvino':
      return [...matching(/\.bin$/i).filter((name) => name === weightsOf(file)), file];
    case 'bigdl':
      return [file, ...weightFiles(names)].sort();
    case 'hugging_face':
    case 'pytorch':
    case 'xgboost':
    case 'lightgbm':
      return [file];
  }
}

async function below(folder: string, name: string): Promise<string[]> {
  const inner = join(folder, name);
  if (!existsSync(inner)) return [];
  const entries = await readdir(inner, { withFileTypes: true, recursive: true });
  if (entries.length > MAX_ENTRIES) {
    throw badModel(`${inner}: ${entries.length} entries are over the limit of ${MAX_ENTRIES}`);
  }
  const files = entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith('.'));
  return files.map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'));
}

async function assertContents(folder: string, kind: ModelKind, files: readonly string[]): Promise<void> {
  for (const file of files) {
    const path = join(folder, file);
    let head: Uint8Array;
    try {
      head = await readHead(path);
    } catch (error) {
      throw badModel(`${path} cannot be read: ${await unreadableFile(error, path)}`, { cause: error });
    }
    const other = file === files.find((name) => isMain(kind, name)) && otherContent(kind, head);
    if (other)
      throw badModel(
        `${path}: expected a file of ${KINDS[kind].title}, found ${other.title}; ${adviceOnContent(basename(file), other)}`,
      );
    const wrong = wrongContent(head);
    // Weights may be empty, and assets and unsupported models may have any content.
    // A PyTorch file is a zip archive or a pickle, which its reader tells apart.
    const isFree =
      kind === 'pytorch' ||
      kind === 'xgboost' ||
      /\.data-\d+-of-\d+$|^assets\/|\.json$|\.bin$|\.xml$/i.test(file);
    if (wrong === undefined || (isFree && !/Git LFS|web page/.test(wrong))) continue;
    throw badModel(`${path}: expected a file of ${KINDS[kind].title}, found ${wrong}`);
  }
}

/** The one file that holds the model. */
function isMain(kind: ModelKind, file: string): boolean {
  if (kind === 'hugging_face') return file.endsWith('.onnx');
  return kind !== 'tf_frozen' || !file.endsWith('.json');
}

async function unreadableFile(problem: unknown, path: string): Promise<string> {
  const target = await readlink(path).catch(() => undefined);
  if (asError(problem).code !== 'ENOENT') return unreadable(problem, path);
  return target === undefined
    ? 'there is no such file'
    : `it is a link to ${target}, which is not there; put the file itself in its place`;
}

async function nothing(folder: string, names: readonly string[]): Promise<ServingError> {
  const found = names.length === 0 ? 'no files' : shownNames(names);
  const advice = await adviceOnFolder(folder, names);
  return badModel(`model directory ${folder} holds no model, found ${found}; ${advice}`);
}

/**
 * Whether the directory holds something that cannot serve unchanged. Never throws: a missing or empty directory, or
 * one with only ONNX models, is left to the code that opens the model. An ONNX model that is to be rewritten counts too,
 * and one of MLflow, whose MLmodel says more of it.
 */
export async function needsImport(
  directory: string,
  { file, variant, before }: Choice = {},
): Promise<boolean> {
  const found = await stat(directory).catch(() => undefined);
  if (!found?.isDirectory()) return found !== undefined;
  const names = (await readdir(directory).catch(() => [])).filter((name) => !name.startsWith('.'));
  const isChosen = (file ?? variant ?? before) !== undefined;
  if (isChosen || names.includes(MLMODEL) || names.includes(CONFIG_PBTXT)) return true;
  const models = candidatesIn(names.sort());
  // What is wrong with its files is reported by the import.
  if ((await textModelFiles(directory, names, {}).catch(() => [])) !== undefined) return true;
  if (await hasImageToStore(directory, names)) return true;
  const [first] = models;
  if (models.length === 1 && first?.kind === 'onnx') {
    if (await needsRewrite(join(directory, first.file))) return true;
    return !names.includes(NAMES_FILE) && hasLabelsToStore(directory, first.file);
  }
  return names.length > 0 && (models.length !== 1 || first?.kind !== 'onnx');
}
