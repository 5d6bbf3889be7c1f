/**
 * Reads the fields of a document (JSON, UBJSON) as what they must be; anything else is a bad_model that names the field.
 */
import { badModel } from '../../../lib/contract/errors.ts';

export type Plain = Readonly<Record<string, unknown>>;
/** A value that is read when it is asked for, each time again. @throws bad_model */
export type Later = () => unknown;

function valueAt(of: Plain, name: string): unknown {
  const value = Object.hasOwn(of, name) ? of[name] : undefined;
  return typeof value === 'function' ? (value as Later)() : value;
}

export function optionalObject(of: Plain, name: string): Plain | undefined {
  const value = valueAt(of, name);
  const isObject =
    typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
  return isObject ? (value as Plain) : undefined;
}

export function objectAt(of: Plain, name: string): Plain {
  return optionalObject(of, name) ?? missing(name, 'an object');
}

export function textAt(of: Plain, name: string): string {
  const value = valueAt(of, name);
  return typeof value === 'string' ? value : missing(name, 'a text');
}

export function listAt(of: Plain, name: string): readonly unknown[] {
  const value = valueAt(of, name);
  return Array.isArray(value) ? value : missing(name, 'a list');
}

/** A whole number from 0 on, which the libraries write as a text. */
export function countAt(of: Plain, name: string, fallback?: number): number {
  const value = valueAt(of, name) ?? fallback;
  const count = typeof value === 'string' && value !== '' ? Number(value) : value;
  return Number.isSafeInteger(count) && (count as number) >= 0 ? (count as number) : missing(name, 'a count');
}

/** A list of numbers; flags count as 0 and 1, null as NaN. @param length that it must have */
export function numbersAt(of: Plain, name: string, length?: number): ArrayLike<number> {
  const value = valueAt(of, name);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    const list = value as unknown as ArrayLike<number>;
    if (length === undefined || list.length === length) return list;
  }
  const isNumber = (item: unknown) => typeof item === 'number' || typeof item === 'boolean' || item === null;
  const isList = Array.isArray(value) && value.every(isNumber);
  if (!isList || (length !== undefined && value.length !== length)) {
    return missing(name, length === undefined ? 'a list of numbers' : `a list of ${length} numbers`);
  }
  return value.map((item) => (item === null ? Number.NaN : Number(item)));
}

export function textsAt(of: Plain, name: string): readonly string[] {
  const value = valueAt(of, name) ?? [];
  const isTexts = Array.isArray(value) && value.every((item) => typeof item === 'string');
  return isTexts ? value : missing(name, 'a list of texts');
}

/** The categories of a table of pandas, whose codes are their places. @param shown as JSON, by column */
export function categoryNotes(shown: string): string[] {
  return [
    `it was trained on categories of pandas; the service takes their codes (0, 1, ...), which are the places in: ${shown.slice(0, 200)}`,
  ];
}

function missing(name: string, expected: string): never {
  throw badModel(`expected ${expected} as "${name}"`);
}
