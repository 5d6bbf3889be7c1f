/**
 * The content of a config file before its keys are interpreted: texts, lists, keys with values. YAML's own types are
 * not used: `123456` for a password, `1.0` for a version and `on` for a mode are texts until their key says otherwise.
 */

/** Null is an empty value (`key:`), which means the default. */
export type Value = string | null | readonly Value[] | Fields;

export interface Fields {
  readonly fields: readonly Field[];
}

export interface Field {
  /** As written. */
  readonly key: string;
  /** Counts from 1. */
  readonly line: number;
  readonly value: Value;
}

const SHOWN_LENGTH = 60;
const SHOWN_ITEMS = 4;
const TRUE = ['true', 'yes', 'on'];
const FALSE = ['false', 'no', 'off'];

export function isFields(value: Value): value is Fields {
  return typeof value === 'object' && value !== null && 'fields' in value;
}

/** Describes the value of a current setting in an error message. */
export function shown(value: Value): string {
  if (typeof value === 'string') return JSON.stringify(clipped(value));
  if (value === null || isFields(value)) return kindOf(value);
  const items = value.slice(0, SHOWN_ITEMS).map((item) => shown(item));
  return `[${items.join(', ')}${value.length > SHOWN_ITEMS ? ', …' : ''}]`;
}

/** Like `shown`, for a value that may be a secret. */
export function kindOf(value: Value): string {
  if (value === null) return 'nothing';
  if (typeof value === 'string') return 'text';
  return isFields(value) ? 'keys with values' : 'a list';
}

/** A key in an error message: unquoted if it is one word. */
export function shownKey(key: string): string {
  return /^[\w.-]{1,60}$/.test(key) ? key : JSON.stringify(clipped(key));
}

function clipped(text: string): string {
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}

/** Undefined for anything but a number: an empty text, `0x10`, `1_000`, `.inf`. */
export function numberOf(value: Value): number | undefined {
  if (typeof value !== 'string' || !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value.trim()))
    return undefined;
  const number = Number(value);
  return Number.isFinite(number) ? number : undefined;
}

/** Accepts any case, as in YAML 1.1. */
export function booleanOf(value: Value): boolean | undefined {
  if (typeof value !== 'string') return undefined;
  const word = value.trim().toLowerCase();
  if (TRUE.includes(word)) return true;
  return FALSE.includes(word) ? false : undefined;
}

/** `modelPath:model` is one text for YAML, and not a key with its value; an address is one, too. */
const KEY_WITHOUT_BLANK = /^\s*(?:-\s+)?(["']?)[A-Za-z_][\w.-]*\1 *:(?!\/\/)[^\s:]/;

/** Advice for a text that was meant as a key with its value; empty for any other text. */
export function blankHint(text: string): string {
  return KEY_WITHOUT_BLANK.test(text) ? '; put a blank behind the colon, as in "modelPath: model"' : '';
}
