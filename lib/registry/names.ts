/**
 * The names that a model's numbers have, beside its file: of the columns of an input, and of the classes of an output.
 * An import writes them as names.json; labels.txt and the config.json of Hugging Face name classes too.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeUtf8, utf8Problem } from '../codecs/utf8.ts';
import { asError, modelUnavailable, ServingError } from '../contract/errors.ts';
import { TEXT_FILE } from '../contract/texts.ts';
import type { ModelNames, TensorRunner, TensorSpec } from '../contract/values.ts';

export const NAMES_FILE = 'names.json';
const LABELS_FILE = 'labels.txt';
const CONFIG_FILE = 'config.json';
/** ImageNet with 21,841 classes takes 0.5 MB. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_NAMES = 1_000_000;

export const NO_NAMES: ModelNames = { columns: {}, labels: {} };

/**
 * The names of a model directory, for a model with these outputs.
 * @throws model_unavailable for a file that cannot be read as what its name says
 */
export async function readNames(folder: string, outputs: readonly TensorSpec[]): Promise<ModelNames> {
  const stored = await textOf(folder, NAMES_FILE);
  if (stored !== undefined) return namesOf(parsed(stored, NAMES_FILE), join(folder, NAMES_FILE));
  const found = await labelsBeside(folder);
  const output = found && outputOfLabels(found.labels.length, outputs);
  return output === undefined ? NO_NAMES : { columns: {}, labels: { [output]: found?.labels ?? [] } };
}

/** Labels of an output that is not named, and where they were found. */
export interface FoundLabels {
  readonly labels: readonly string[];
  readonly source: string;
}

/** The labels in the files beside a model. @throws model_unavailable for a file that cannot be read */
export async function labelsBeside(folder: string): Promise<FoundLabels | undefined> {
  const lines = await textOf(folder, LABELS_FILE);
  const labels = lines === undefined ? undefined : textLabels(lines);
  if (labels) return { labels, source: LABELS_FILE };
  const byId = await configLabels(folder);
  return byId && { labels: byId, source: `id2label of ${CONFIG_FILE}` };
}

/** True if the model of a directory reads texts. */
export function hasTexts(folder: string): Promise<boolean> {
  return stat(join(folder, TEXT_FILE)).then(
    () => true,
    () => false,
  );
}

/** @throws model_unavailable for names of an input or output that the model does not have, or more or fewer than it has */
export function assertNames(names: ModelNames, model: Pick<TensorRunner, 'inputs' | 'outputs'>): void {
  assertLists(names.columns, model.inputs, 'columns', 'input');
  assertLists(names.labels, model.outputs, 'labels', 'output');
}

function assertLists(
  lists: Readonly<Record<string, readonly string[]>>,
  specs: readonly TensorSpec[],
  what: string,
  side: string,
): void {
  for (const [name, list] of Object.entries(lists)) {
    const spec = specs.find((one) => one.name === name);
    const size = spec?.shape.at(-1);
    if (spec && (typeof size !== 'number' || size === list.length)) continue;
    const found = spec
      ? `${side} ${JSON.stringify(name)} has ${size}`
      : `the model has no ${side} ${JSON.stringify(name)}`;
    throw modelUnavailable(`${NAMES_FILE}: ${list.length} ${what}, and ${found}`);
  }
}

export async function textOf(folder: string, name: string): Promise<string | undefined> {
  const path = join(folder, name);
  try {
    const { size } = await stat(path);
    if (size > MAX_BYTES) throw modelUnavailable(`${path}: ${size} bytes are over the limit of ${MAX_BYTES}`);
    const bytes = await readFile(path);
    const text = decodeUtf8(bytes);
    if (text === undefined) throw modelUnavailable(`${path}: ${utf8Problem(bytes)}`);
    return text;
  } catch (error) {
    if (error instanceof ServingError) throw error;
    if (asError(error).code === 'ENOENT') return undefined;
    throw modelUnavailable(`${path} cannot be read: ${asError(error).message}`, { cause: error });
  }
}

function parsed(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw modelUnavailable(`${path} is not JSON: ${asError(error).message}`, { cause: error });
  }
}

function namesOf(value: unknown, path: string): ModelNames {
  const { columns = {}, labels = {} } = (value ?? {}) as Partial<ModelNames>;
  for (const lists of [columns, labels]) {
    const isRight =
      typeof lists === 'object' &&
      Object.values(lists).every(
        (list) => Array.isArray(list) && list.every((name) => typeof name === 'string'),
      );
    if (isRight) continue;
    throw modelUnavailable(
      `${path}: expected {"columns": {input: [name, ...]}, "labels": {output: [name, ...]}}`,
    );
  }
  return { columns, labels };
}

/** One label a line; empty lines at the end do not count. */
export function textLabels(text: string): string[] | undefined {
  const lines = text
    .trimEnd()
    .split(/\r?\n/)
    .map((line) => line.trim());
  return lines.length <= MAX_NAMES && lines[0] !== '' ? lines : undefined;
}

/** `id2label` of a Hugging Face model: `{"0": "negative", ...}`. A config of something else has no labels. */
async function configLabels(folder: string): Promise<string[] | undefined> {
  const text = await textOf(folder, CONFIG_FILE);
  let byId: unknown;
  try {
    byId = Object(JSON.parse(text ?? 'null')).id2label;
  } catch {
    return undefined;
  }
  if (typeof byId !== 'object' || byId === null) return undefined;
  const named: Readonly<Record<string, unknown>> = Object(byId);
  const labels = Array.from({ length: Object.keys(named).length }, (_, i) => named[i]);
  return labels.length > 0 && labels.every((label) => typeof label === 'string') ? labels : undefined;
}

/** The only output with `count` columns; undefined when there is none, or several. */
export function outputOfLabels(count: number, outputs: readonly TensorSpec[]): string | undefined {
  const numbers = outputs.filter(({ dtype }) => dtype.startsWith('float'));
  const fitting = numbers.filter(({ shape }) => shape.at(-1) === count);
  if (fitting.length > 0) return fitting.length === 1 ? fitting[0]?.name : undefined;
  const [only, ...others] = numbers;
  const isFree = only !== undefined && others.length === 0 && typeof only.shape.at(-1) === 'string';
  return isFree && only.shape.length > 1 ? only.name : undefined;
}
