/**
 * Where in a folder its model lies. People have the folder of a hub (onnx/ below config.json), a repository of Triton, OpenVINO
 * Model Server or TensorFlow Serving (a folder for each version), a folder with one model somewhere in it, or one file.
 */
import type { Dirent } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { badModel, ServingError, withPathAs } from '../../lib/contract/errors.ts';
import { shownNames, unreadable } from '../../lib/registry/onnx-file.ts';
import { TOKENIZER_FILE } from '../../lib/text/part.ts';
import { type Choice, type Chosen, chooseModel, severalModels } from '../files/variants.ts';
import { fitsBefore } from '../onnx/join/join.ts';
import { adviceOnFile } from './advice/folder.ts';
import { isArchive, unpackModel } from './archive.ts';
import { type Candidate, candidatesIn } from './candidates.ts';
import { KINDS } from './kinds.ts';
import { MLMODEL } from './mlflow.ts';
import { CONFIG_PBTXT, readTriton, type TritonFacts } from './triton.ts';

export interface Archive {
  readonly folder: string;
  readonly path: string;
}

export interface Place {
  /** The folder with what people put beside a model. */
  readonly home: string;
  /** The folder of its files, and their names. */
  readonly folder: string;
  readonly names: readonly string[];
  /** The file that is meant. */
  readonly only?: string;
  readonly triton?: TritonFacts;
  /** The archive that was unpacked, and where. */
  readonly archive?: Archive;
  readonly notes: readonly string[];
}

const MAX_ENTRIES = 10_000;
const MAX_SUBFOLDERS = 20;
const MAX_DEPTH = 3;
const ONNX_FOLDER = 'onnx';
/** Parts of a model, or of something else. */
const NO_MODELS = /^(\..*|golden|variables|assets|node_modules)$/;

/**
 * A folder without a model is returned as it is.
 * @param path absolute. @throws bad_model when there is nothing, or several models of which none is the obvious one
 */
export async function placeOf(path: string, choice: Choice): Promise<Place> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() && isArchive(path)) return placeInArchive(path, choice);
  if (found?.isFile()) return placeOfFile(path);
  const place = await placeIn(path, choice, 0);
  if (place) return place;
  const names = await fileNames(path);
  const [archive, ...more] = names.filter(isArchive);
  if (archive !== undefined && more.length === 0) return placeInArchive(join(path, archive), choice);
  return { home: path, folder: path, names, notes: [] };
}

async function placeInArchive(path: string, choice: Choice): Promise<Place> {
  const { folder, notes } = await unpackModel(path);
  try {
    const place = (await placeIn(folder, choice, 0)) ?? {
      home: folder,
      folder,
      names: await fileNames(folder),
      notes: [],
    };
    return { ...place, notes: [...notes, ...place.notes], archive: { folder, path } };
  } catch (error) {
    throw withPathAs(ServingError.from(error), folder, path);
  }
}

async function placeOfFile(path: string): Promise<Place> {
  const [folder, only] = [dirname(path), basename(path)];
  if (/\.zip$/i.test(only))
    throw badModel(`${path} is an archive: unpack it (unzip ${only}) and name the folder with its files`);
  if (candidatesIn([only]).length === 0) {
    const advice = await adviceOnFile(folder, only);
    throw badModel(
      `${path} is no file of a model that can be imported; ${advice ?? 'name the file that begins the model, or its directory'}`,
    );
  }
  return { home: folder, folder, names: await fileNames(folder), only, notes: [] };
}

async function placeIn(folder: string, choice: Choice, depth: number): Promise<Place | undefined> {
  const names = await fileNames(folder);
  if (
    names.includes(CONFIG_PBTXT) &&
    candidatesIn(names.filter((name) => name !== CONFIG_PBTXT)).length === 0
  )
    return tritonPlace(folder);
  const isOwn = names.includes(MLMODEL) || names.includes(TOKENIZER_FILE) || candidatesIn(names).length > 0;
  if (isOwn) return { home: folder, folder, names, notes: [] };
  const folders = await subfolders(folder);
  if (folders.includes(ONNX_FOLDER)) {
    const inner = join(folder, ONNX_FOLDER);
    const inside = await fileNames(inner);
    if (candidatesIn(inside).length > 0) return { home: folder, folder: inner, names: inside, notes: [] };
  }
  if (depth === MAX_DEPTH) return undefined;
  return (await newestVersion(folder, folders, choice, depth)) ?? onlyModel(folder, folders, choice, depth);
}

function versionsIn(folders: readonly string[]): string[] {
  return folders.filter((name) => /^\d{1,15}$/.test(name)).sort((a, b) => Number(b) - Number(a));
}

async function newestVersion(folder: string, folders: readonly string[], choice: Choice, depth: number) {
  const versions = versionsIn(folders);
  for (const version of versions) {
    const place = await placeIn(join(folder, version), choice, depth + 1);
    if (!place) continue;
    const note = `version ${version} was taken, the highest of ${shownNames(versions)}`;
    return versions.length === 1 ? place : { ...place, notes: [...place.notes, note] };
  }
  return undefined;
}

async function onlyModel(folder: string, folders: readonly string[], choice: Choice, depth: number) {
  const places: (Place & { readonly name: string })[] = [];
  for (const name of folders.slice(0, MAX_SUBFOLDERS)) {
    const place = await placeIn(join(folder, name), choice, depth + 1);
    if (place) places.push({ ...place, name });
  }
  const [only, ...more] = places;
  if (!only) return undefined;
  if (more.length > 0) {
    const found = places.map(({ name }) => name);
    throw badModel(
      `model directory ${folder}: expected one model, found models in ${shownNames(found)}; name one of these: ${join(folder, only.name)}`,
    );
  }
  return { ...only, notes: [...only.notes, `the model in ${only.name} was taken`] };
}

async function tritonPlace(folder: string): Promise<Place> {
  const { file, versions, ...triton } = await readTriton(folder);
  const there = versionsIn(await subfolders(folder));
  const allowed = there.filter((version) => versions?.includes(Number(version)) ?? true);
  const [version] = allowed;
  if (version === undefined)
    throw badModel(
      `${join(folder, CONFIG_PBTXT)}: expected a folder for each version, 1/${file}, found ${shownNames(there) || 'none'}`,
    );
  const path = join(folder, version, file);
  const found = await stat(path).catch(() => undefined);
  if (!found) throw badModel(`${path}: there is no such file, which ${CONFIG_PBTXT} names`);
  const note = `${CONFIG_PBTXT}: version ${version} was taken, ${version}/${file}`;
  const base = { home: folder, triton, notes: [note, ...batchNotes(triton)] };
  if (!found.isDirectory())
    return { ...base, folder: dirname(path), names: await fileNames(dirname(path)), only: basename(path) };
  return { ...base, folder: path, names: await fileNames(path) };
}

function batchNotes({ maxBatchSize }: TritonFacts): string[] {
  if (maxBatchSize > 0) return [];
  return [
    'config.pbtxt: max_batch_size 0, so requests to Triton carry whole tensors; here a record is a row of them, or whole with inputAlreadyBatched: true',
  ];
}

async function subfolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && !NO_MODELS.test(entry.name))
    .map(({ name }) => name)
    .sort();
}

/** The names of files in the directory, following links. */
export async function fileNames(folder: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (error) {
    throw badModel(`model directory ${folder} cannot be read: ${unreadable(error, folder)}`, {
      cause: error,
    });
  }
  if (entries.length > MAX_ENTRIES) {
    throw badModel(
      `model directory ${folder}: ${entries.length} entries are over the limit of ${MAX_ENTRIES}; put the model and its files into a folder of their own`,
    );
  }
  const visible = entries.filter((entry) => !entry.name.startsWith('.') && !entry.isDirectory());
  return visible.map((entry) => entry.name).sort();
}

/** The model of a place; undefined where there is none. @throws bad_model, bad_config for a choice that is not there */
export function candidateAt({ folder, names, only }: Place, choice: Choice): Chosen<Candidate> | undefined {
  const all = candidatesIn(names).filter(({ file }) => file !== choice.before);
  const named = all.filter(({ file }) => file === only);
  const own = only === undefined ? all : named.length > 0 ? named : candidatesIn([only]);
  const [first] = own;
  if (first === undefined) return undefined;
  const chosen = chooseModel(own, ({ file }) => file, choice);
  if (chosen) return chosen;
  return severalModels(
    folder,
    own.map(({ kind, file }) => `${file} (${KINDS[kind].title})`),
    adviceOnSeveral(folder, own, first),
  );
}

/** Two files that fit are joined when that is asked for. */
function adviceOnSeveral(folder: string, found: readonly Candidate[], first: Candidate): string {
  const nets = found.filter(({ kind }) => kind === 'onnx').map(({ file }) => file);
  const one = `choose one: --file ${nets[0] ?? first.file}`;
  const [a, b] = nets;
  if (nets.length !== 2 || a === undefined || b === undefined) return one;
  const before = fitsBefore(folder, a, b) ? a : fitsBefore(folder, b, a) ? b : undefined;
  if (before === undefined) return one;
  return `${one}, or join them, as ${before} gives what ${before === a ? b : a} takes: --before ${before}`;
}
