/**
 * Detects the kind of model in a directory by the file names that the formats prescribe. A directory with two models
 * is refused. Ambiguous names (`*.model` is also a tokenizer's, `*.pb` also a SavedModel's fingerprint) count only if
 * nothing clearer is there.
 */
import { type Dirent, existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { badModel, type ServingError } from '../lib/contract/errors.ts';
import { readHead, shownNames, unreadable, wrongContent } from '../lib/registry/onnx-file.ts';
import { weightFiles } from './bigdl/choose.ts';
import { chosenNets } from './caffe/choose.ts';
import { KINDS, type ModelKind } from './kinds.ts';
import { adviceOn } from './no-model.ts';
import { mayNeedRewrite } from './onnx/rewrite/rewrite.ts';

export interface FoundModel {
  readonly kind: ModelKind;
  /** Absolute. */
  readonly directory: string;
  /** All files of the model, relative to the directory, with `/`, sorted. */
  readonly files: readonly string[];
}

interface Candidate {
  readonly kind: ModelKind;
  /** The file by which it was detected. */
  readonly file: string;
}

const MAX_ENTRIES = 10_000;
const MAX_SUBFOLDERS = 20;

/**
 * @throws bad_model naming what was found and what was expected, unless the directory holds exactly one readable
 * model
 */
export async function detectModel(directory: string): Promise<FoundModel> {
  const folder = resolve(directory);
  const names = await fileNames(folder);
  const candidates = candidatesIn(names);
  if (candidates.length === 0) throw await nothing(folder, names);
  if (candidates.length > 1) throw several(folder, candidates);
  const [{ kind, file }] = candidates as [Candidate];
  const files = await sourceFiles(folder, kind, file, names);
  await assertContents(folder, kind, files);
  return { kind, directory: folder, files };
}

/** The names of files in the directory, following links. */
async function fileNames(folder: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') {
      const where = `the directory it is in: ${dirname(folder)}`;
      throw badModel(`${folder} is a file; expected a model directory, perhaps ${where}`, { cause: error });
    }
    throw badModel(`model directory ${folder} cannot be read: ${unreadable(error, folder)}`, {
      cause: error,
    });
  }
  if (entries.length > MAX_ENTRIES) {
    throw badModel(
      `model directory ${folder}: ${entries.length} entries are over the limit of ${MAX_ENTRIES}`,
    );
  }
  const visible = entries.filter((entry) => !entry.name.startsWith('.') && !entry.isDirectory());
  return visible.map((entry) => entry.name).sort();
}

/** What people name the files of XGBoost and LightGBM, whose endings say nothing. */
const TREES_JSON = /^(model|.*(xgb|xgboost|booster).*)\.json$/i;
const TREES_TEXT = /^(model|.*(lgb|lgbm|lightgbm|booster).*)\.txt$/i;

/** One candidate per model; anything but one is an error. */
function candidatesIn(names: readonly string[]): Candidate[] {
  const named = (kind: ModelKind, pattern: RegExp) =>
    names.filter((name) => pattern.test(name)).map((file) => ({ kind, file }));
  const plain = [
    ...named('onnx', /\.onnx$/i),
    ...named('tf_saved_model', /^saved_model\.pb$/),
    ...(names.includes('saved_model.pb') ? [] : named('tf_saved_model', /^saved_model\.pbtxt$/)),
    ...frozenGraphs(names),
    ...checkpoints(names),
    ...caffe(names),
    ...openvino(names),
    ...named('xgboost', /\.(ubj|xgb)$/i),
    ...named('lightgbm', /\.(lgb|lgbm)$/i),
    ...named('bigdl', /\.bigdl$/i),
    ...named('pytorch', /\.(pt|pth|ptl|pt2|jit)$/i).filter(({ file }) => !chosenNets(names).includes(file)),
  ];
  if (plain.length > 0) return plain;
  const trees = [...named('xgboost', TREES_JSON), ...named('lightgbm', TREES_TEXT)];
  if (trees.length > 0) return trees;
  const bigdl = named('bigdl', /\.model$/i);
  if (bigdl.length > 0) return bigdl;
  // Without constants a model of OpenVINO needs no second file.
  const nets = named('openvino', /\.xml$/i);
  if (nets.length > 0) return nets;
  // Binary first: a text graph is often there only to be read by people.
  const graphs = named('tf_frozen', /\.pb$/i);
  return graphs.length > 0 ? graphs : named('tf_frozen', /\.pbtxt$/i);
}

/** The same graph may also be there as text. */
function frozenGraphs(names: readonly string[]): Candidate[] {
  const graphs = names.filter((name) => /^frozen_(inference_graph|graph|model)\.pb(txt)?$/.test(name));
  const texts = graphs.filter(
    (name) => name.endsWith('txt') && graphs.includes(name.slice(0, -'txt'.length)),
  );
  return graphs.filter((name) => !texts.includes(name)).map((file) => ({ kind: 'tf_frozen', file }));
}

/** Several steps are still one model: the file `checkpoint` names the one that counts. */
function checkpoints(names: readonly string[]): Candidate[] {
  const file = names.find((name) => name.endsWith('.meta')) ?? names.find((name) => name.endsWith('.index'));
  return file === undefined ? [] : [{ kind: 'tf_checkpoint', file }];
}

/** One candidate per net, or per file of weights if there are more of those. */
function caffe(names: readonly string[]): Candidate[] {
  const nets = chosenNets(names);
  const weights = names.filter((name) => /\.caffemodel$/i.test(name));
  if (nets.length === 0) return [];
  const models = weights.length > nets.length ? weights : nets;
  return models.map((file) => ({ kind: 'caffe', file }));
}

function openvino(names: readonly string[]): Candidate[] {
  return names
    .filter((name) => /\.xml$/i.test(name) && names.includes(weightsOf(name)))
    .map((file) => ({ kind: 'openvino', file }));
}

function weightsOf(xml: string): string {
  return xml.replace(/\.xml$/i, '.bin');
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
      // The names of its external weights are in the file itself (convert/onnx/facts.ts).
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
      throw badModel(`${path} cannot be read: ${unreadable(error, path)}`, { cause: error });
    }
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

function several(folder: string, candidates: readonly Candidate[]): ServingError {
  const found = candidates.map(({ kind, file }) => `${file} (${KINDS[kind].title})`);
  return badModel(
    `model directory ${folder}: expected one model, found ${candidates.length}: ${shownNames(found)}; ` +
      'leave the one that is meant in a directory of its own',
  );
}

async function nothing(folder: string, names: readonly string[]): Promise<ServingError> {
  const found = names.length === 0 ? 'no files' : shownNames(names);
  const advice = (await adviceFor(folder, names)) ?? `expected ${expectedFiles()}`;
  return badModel(`model directory ${folder} holds no model, found ${found}; ${advice}`);
}

function expectedFiles(): string {
  return Object.values(KINDS)
    .map(({ layout, title }) => `${layout} (${title})`)
    .join(', ');
}

async function adviceFor(folder: string, names: readonly string[]): Promise<string | undefined> {
  const advice = adviceOn(names);
  if (advice !== undefined) return advice;
  const inside = await modelsBelow(folder);
  return inside.length > 0 ? `there is a model in ${shownNames(inside)}` : undefined;
}

/** TensorFlow Serving has one folder per model version. */
async function modelsBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries.filter((at) => at.isDirectory()).slice(0, MAX_SUBFOLDERS)) {
    const inner = join(folder, entry.name);
    const names = await readdir(inner).catch(() => []);
    if (candidatesIn(names.slice(0, MAX_ENTRIES).sort()).length > 0) found.push(inner);
  }
  return found.sort();
}

/**
 * Whether the directory holds something that cannot serve unchanged. Never throws: a missing or empty directory, or
 * one with only ONNX models, is left to the code that opens the model. An ONNX model that is to be rewritten counts too.
 */
export async function needsImport(directory: string): Promise<boolean> {
  const found = await stat(directory).catch(() => undefined);
  if (!found?.isDirectory()) return false;
  const names = (await readdir(directory).catch(() => [])).filter((name) => !name.startsWith('.'));
  const models = candidatesIn(names.sort());
  const [first] = models;
  if (models.length === 1 && first?.kind === 'onnx') return mayNeedRewrite(join(directory, first.file));
  return names.length > 0 && (models.length === 0 || models.some(({ kind }) => kind !== 'onnx'));
}
