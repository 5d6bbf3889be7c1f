/**
 * Shortens a caller's name or value for an error message. A value may be megabytes long or nested a million deep, where
 * JSON.stringify overflows the stack, and the message goes into a response, a log and Redis.
 */
import { isInfinity } from '../contract/json-numbers.ts';

const LONGEST = 80;
/** Names shown of a list. */
const MOST_NAMES = 8;

/** Quotes an untrusted name, cut to 80 characters. */
export function quoteName(name: string): string {
  return JSON.stringify(name.length > LONGEST ? `${name.slice(0, LONGEST)}...` : name);
}

/** `"a", "b"`: the first eight names, and the number of others. */
export function quoteNames(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMES).map(quoteName).join(', ');
  return names.length > MOST_NAMES ? `${shown} and ${names.length - MOST_NAMES} more` : shown;
}

/** A JSON value in short: texts and numbers unchanged, anything nested by its kind. */
export function quoteValue(value: unknown): string {
  if (typeof value === 'string') return quoteName(value);
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint')
    return String(isInfinity(value) ? Number(value) : value);
  return kindOf(value);
}

/** `a text`, `null`, `an array`: what a JSON value is. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
