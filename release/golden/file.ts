/**
 * Golden requests: files `golden/*.json` in a model directory. Each is a request to POST /predict that also holds the
 * answer, `{"instances": [...], "predictions": [...], "tolerance": 0.0001}`, so it can be sent to a service as it is.
 * They are part of a version and travel with it.
 */
import { copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BY_POSITION, isObject, readJson } from '../../lib/codecs/instances.ts';
import { decodeUtf8, utf8Problem } from '../../lib/codecs/utf8.ts';
import { asError, badModel, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { namesIn } from '../../lib/registry/download-folder.ts';
import { GOLDEN_FOLDER } from '../../lib/registry/golden.ts';

export interface GoldenRequest {
  /** Name of the file, without `.json`. */
  readonly name: string;
  /** The file, which is a body of POST /predict. */
  readonly body: string;
  /** The predictions of the right answer, one for each instance. */
  readonly predictions: readonly string[];
  /** The largest difference of a float, as a share of its output's spread (largest minus smallest value). */
  readonly tolerance: number;
  /** With what a service on this machine answered; undefined for a reference, and where it is not known. */
  readonly made?: Made | undefined;
}

export interface Made {
  readonly threads: number;
  /** Features of the processor, as a verification names them. */
  readonly features: readonly string[];
}

export const DEFAULT_TOLERANCE = 1e-4;
const MAX_REQUESTS = 100;
/** A request and its answer may each be as long as Lambda allows. */
const MAX_BYTES = 2 * LIMITS.httpBodyBytes;
const NAME = /^\w[\w.-]{0,99}$/;
const KEYS = ['instances', 'predictions', 'tolerance', 'made', BY_POSITION];

/**
 * Sorted by name; none for a directory without the folder.
 * @param kept laid out like a model directory too; of two with one name, that of `directory` counts
 * @throws bad_model naming the file
 */
export async function goldenRequests(directory: string, kept?: string): Promise<GoldenRequest[]> {
  const paths = new Map([...(kept === undefined ? [] : await filesIn(kept)), ...(await filesIn(directory))]);
  if (paths.size > MAX_REQUESTS) {
    const folder = join(directory, GOLDEN_FOLDER);
    const with_ =
      kept === undefined ? '' : ', with those of the version that serves (--drop-golden drops them)';
    throw badModel(`${folder}: ${paths.size} golden requests${with_}, over the limit of ${MAX_REQUESTS}`);
  }
  const requests: GoldenRequest[] = [];
  for (const file of [...paths.keys()].sort()) {
    const path = paths.get(file) ?? '';
    const { size } = await stat(path);
    if (size > MAX_BYTES) throw badModel(`${path}: ${size} bytes, over the limit of ${MAX_BYTES}`);
    requests.push(parseGolden(await readFile(path), file.slice(0, -'.json'.length), path));
  }
  return requests;
}

/** Path by name. */
async function filesIn(directory: string): Promise<[string, string][]> {
  const folder = join(directory, GOLDEN_FOLDER);
  const names = await namesIn(folder).catch((error: unknown) => {
    throw badModel(`${folder} cannot be read: ${asError(error).message}`);
  });
  const files = names.filter((name) => /\.json$/i.test(name));
  const other = files.find((name) => !name.endsWith('.json'));
  if (other !== undefined) throw badModel(`${join(folder, other)}: expected a name in .json`);
  return files.map((file) => [file, join(folder, file)]);
}

/** Copies the golden requests of a directory into another one, where others stay. */
export async function copyGolden(from: string, to: string): Promise<void> {
  const [source, target] = [join(from, GOLDEN_FOLDER), join(to, GOLDEN_FOLDER)];
  for (const { name } of await goldenRequests(from)) {
    await mkdir(target, { recursive: true });
    await copyFile(join(source, `${name}.json`), join(target, `${name}.json`));
  }
}

/** Makes the golden requests of a directory those of another one. */
export async function replaceGolden(from: string, to: string): Promise<void> {
  await rm(join(to, GOLDEN_FOLDER), { recursive: true, force: true });
  await copyGolden(from, to);
}

/** @param path of the file, which each error names first */
function parseGolden(content: Uint8Array | string, name: string, path: string): GoldenRequest {
  const refuse = (what: string) => badModel(`${path}: ${what}`);
  const text = typeof content === 'string' ? content : decodeUtf8(content);
  if (text === undefined) throw refuse(utf8Problem(content as Uint8Array));
  let file: unknown;
  try {
    file = readJson(text).parsed;
  } catch (error) {
    throw refuse(ServingError.from(error).message);
  }
  if (!isObject(file)) throw refuse(`expected an object with ${KEYS.join(', ')}`);
  const { instances, predictions, tolerance = DEFAULT_TOLERANCE, made } = file;
  const unknown = Object.keys(file).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    throw refuse(`unknown key ${JSON.stringify(unknown)}; expected ${KEYS.join(', ')}`);
  }
  if (!Array.isArray(instances)) throw refuse('instances: expected an array, as for POST /predict');
  if (
    !Array.isArray(predictions) ||
    predictions.length !== instances.length ||
    predictions.some((one) => typeof one !== 'string')
  ) {
    throw refuse('predictions: expected those of the answer of POST /predict, one text for each instance');
  }
  if (typeof tolerance !== 'number' || !(tolerance >= 0 && tolerance < 1)) {
    throw refuse('tolerance: expected a number from 0 to below 1, a share of the spread of the output');
  }
  if (made !== undefined && !isMade(made)) {
    throw refuse('made: expected {"threads": 2, "features": ["avx2"]}, or leave it out');
  }
  return { name, body: text, predictions: predictions as string[], tolerance, made };
}

function isMade(value: unknown): value is Made {
  const { threads, features } = (isObject(value) ? value : {}) as Partial<Record<keyof Made, unknown>>;
  return (
    Number.isInteger(threads) && Array.isArray(features) && features.every((one) => typeof one === 'string')
  );
}

export interface NewGolden {
  readonly name: string;
  /** JSON text `{"instances": [...]}`, which is kept as it is: the order of names counts, and so does each digit. */
  readonly request: string;
  readonly predictions: readonly string[];
  readonly tolerance: number;
  readonly made?: Made | undefined;
}

/** @returns the path. @throws bad_model for a name that is taken, or that no file can have, or a request that is none */
export async function writeGolden(
  directory: string,
  { name, request, predictions, tolerance, made }: NewGolden,
  force: boolean,
): Promise<string> {
  if (!NAME.test(name)) {
    throw badModel(`${JSON.stringify(name)}: expected a name of 1 to 100 letters, digits, ".", "_" or "-"`);
  }
  const path = join(directory, GOLDEN_FOLDER, `${name}.json`);
  const answer = JSON.stringify({ predictions, tolerance, made });
  const text = `${answer.slice(0, -1)},\n${request.trim().slice(1)}\n`;
  parseGolden(text, name, 'the request');
  await mkdir(join(directory, GOLDEN_FOLDER), { recursive: true });
  await writeFile(path, text, { flag: force ? 'w' : 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
    throw badModel(`${path} exists; choose another --name, or replace it with --force`);
  });
  return path;
}
