/**
 * Reads names, shapes and numbers of a model's inputs and outputs from a config or a command line. A name may hold a
 * colon (`input:0`) and a size may be a word, so whole names are never split at either.
 */
import { isFields, numberOf, type Value } from './value.ts';

/** Files beside a model that say how its inputs are made. */
export const IGNORABLE = [
  'preprocessor_config.json',
  'processor_config.json',
  'config.json',
  'config_sentence_transformers.json',
] as const;
export type IgnoredFile = (typeof IGNORABLE)[number];

export type ShapeText = readonly (number | string)[];

const MAX_NAMES = 100;
const MAX_NAME_LENGTH = 512;
const MAX_RANK = 16;
const MAX_SIZE = 2 ** 31;

/** `a, b` or a list, each name once; undefined for anything else. */
export function namesOf(value: Value): readonly string[] | undefined {
  const list = typeof value === 'string' ? value.split(',').map((name) => name.trim()) : value;
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_NAMES) return undefined;
  return list.every(isName) && new Set(list).size === list.length ? list : undefined;
}

/** One file in the folder of the model. */
export const ONE = {
  expected: 'the name of one file; a longer chain is a worker',
  read: (value: Value) => (typeof value === 'string' && /^[^/\\]{1,512}$/.test(value) ? value : undefined),
};

export function ignoredOf(value: Value): readonly IgnoredFile[] | undefined {
  const found = namesOf(value)?.map((name) => IGNORABLE.find((file) => file === name));
  return found?.every((file) => file !== undefined) ? found : undefined;
}

/** Shapes by name, or names alone. */
export function inputsOf(value: Value): readonly string[] | Readonly<Record<string, ShapeText>> | undefined {
  // `{input: 5}` may be meant as a rank, a count or by mistake; a shape of one size is written as [5].
  const shape = (text: Value) => (typeof text === 'string' && !/[,[]/.test(text) ? undefined : shapeOf(text));
  return isFields(value) ? recordOf(value, shape) : namesOf(value);
}

/** One shape or several, of whole numbers. */
export function shapesOf(value: Value): readonly (readonly number[])[] | undefined {
  const list = Array.isArray(value) && value.some(Array.isArray) ? value : [value];
  const shapes = list.map(shapeOf);
  const isSize = (size: number | string) => typeof size === 'number' && size > 0;
  const isRight = shapes.every((shape) => shape !== undefined && shape.length > 0 && shape.every(isSize));
  return isRight && shapes.length <= MAX_NAMES ? (shapes as readonly (readonly number[])[]) : undefined;
}

export function constantsOf(value: Value): Readonly<Record<string, number>> | undefined {
  return recordOf(value, numberOf);
}

/** `N,3,224,224`, with or without brackets, or a list; a size that is not a number is free, by that name. */
export function shapeOf(value: Value): ShapeText | undefined {
  const text =
    typeof value === 'string'
      ? value
          .trim()
          .replace(/^\[(.*)\]$/, '$1')
          .trim()
      : undefined;
  const parts = text === undefined ? value : text === '' ? [] : text.split(',');
  if (!Array.isArray(parts) || parts.length > MAX_RANK) return undefined;
  const sizes = parts.map((part: Value, axis) =>
    typeof part === 'string' ? sizeOf(part.trim(), axis) : undefined,
  );
  return sizes.every((size) => size !== undefined) ? sizes : undefined;
}

/** A size without a name is the batch if it comes first, else gets a name. */
function sizeOf(text: string, axis: number): number | string | undefined {
  if (/^(\?|-1|none|null)$/i.test(text)) return axis === 0 ? 'N' : `size${axis}`;
  if (/^\d{1,10}$/.test(text)) return Number(text) < MAX_SIZE ? Number(text) : undefined;
  return /^[A-Za-z_]\w{0,60}$/.test(text) ? text : undefined;
}

function recordOf<T>(
  value: Value,
  read: (value: Value) => T | undefined,
): Readonly<Record<string, T>> | undefined {
  if (!isFields(value) || value.fields.length === 0 || value.fields.length > MAX_NAMES) return undefined;
  const entries = value.fields.map(({ key, value: item }) => [key, read(item)] as const);
  const isRight = entries.every(([name, item]) => isName(name) && item !== undefined);
  // A duplicate name would silently drop an entry.
  if (!isRight || new Set(entries.map(([name]) => name)).size < entries.length) return undefined;
  return Object.fromEntries(entries) as Readonly<Record<string, T>>;
}

function isName(name: Value | undefined): boolean {
  return typeof name === 'string' && name !== '' && name.length <= MAX_NAME_LENGTH && name !== '__proto__';
}
