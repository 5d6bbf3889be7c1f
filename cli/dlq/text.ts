/**
 * Formats messages of untrusted callers for a terminal. Control characters, which a terminal would execute, are
 * replaced.
 */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../lib/contract/values.ts';
import { float16Value } from '../../lib/pipeline/bind/cast.ts';

const SHOWN_VALUES = 8;
const SHOWN_CHARACTERS = 80;

/** Replaces unprintable characters and shortens. */
export function plain(text: string, most = 200): string {
  const printable = text.slice(0, most).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
  return text.length > most ? `${printable}…` : printable;
}

export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** To the second, in UTC. */
export function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** One input of a record, as far as the record shows it without the model. */
export interface InputFacts {
  readonly name: string;
  readonly kind: Value['kind'];
  readonly dtype?: string;
  readonly shape?: readonly number[];
  readonly bytes?: number;
  /** The first values. */
  readonly first: readonly (number | string)[];
}

export function inputFacts(inputs: Inputs): InputFacts[] {
  return [...inputs].map(([name, value]) => ({ name, kind: value.kind, ...factsOf(value) }));
}

function factsOf(value: Value): Omit<InputFacts, 'name' | 'kind'> {
  switch (value.kind) {
    case 'tensor':
      return { dtype: value.tensor.dtype, shape: value.tensor.shape, first: firstOf(value.tensor) };
    case 'sparse':
      return { dtype: value.values.dtype, shape: value.shape, first: firstOf(value.values) };
    case 'image':
      return { dtype: imageKind(value.bytes), bytes: value.bytes.byteLength, first: [] };
    case 'text':
      return { dtype: 'string', bytes: value.text.length, first: [value.text.slice(0, SHOWN_CHARACTERS)] };
    case 'json':
      return nestedFacts(value.value);
    case 'value':
      return { first: [] };
  }
}

function firstOf({ dtype, data }: Tensor): (number | string)[] {
  if (dtype === 'string') {
    return data.slice(0, SHOWN_VALUES).map((text) => text.slice(0, SHOWN_CHARACTERS));
  }
  const numbers = Array.from(data.slice(0, SHOWN_VALUES) as ArrayLike<number | bigint>, Number);
  return numbers.map((value) => {
    const number = dtype === 'float16' ? float16Value(value) : value;
    return Number.isFinite(number) ? number : String(number);
  });
}

function imageKind(bytes: Uint8Array): string {
  if (bytes[0] === 0xff && bytes[1] === 0xd8) return 'JPEG';
  return bytes[0] === 0x89 && bytes[1] === 0x50 ? 'PNG' : 'unknown image';
}

/** The lengths along the first elements; other branches are not checked. */
function nestedFacts(value: unknown): { shape: number[]; first: (number | string)[] } {
  const shape: number[] = [];
  let inner = value;
  while (Array.isArray(inner) && shape.length < 16) {
    shape.push(inner.length);
    if (!Array.isArray(inner[0])) break;
    inner = inner[0];
  }
  const values: unknown[] = Array.isArray(inner) ? inner.slice(0, SHOWN_VALUES) : [inner];
  const first = values.map((one) => {
    if (typeof one === 'number') return one;
    return plain(typeof one === 'string' ? one : JSON.stringify(one), SHOWN_CHARACTERS);
  });
  return { shape, first };
}

export function inputLine({ name, kind, dtype, shape, bytes, first }: InputFacts): string {
  const dimensions = shape === undefined ? '' : `[${shape.join(',')}]`;
  const size = bytes === undefined ? '' : `, ${bytesText(bytes)}`;
  const head = `${plain(name)} ${kind}${dtype === undefined ? '' : ` ${dtype}`}${dimensions}${size}`;
  const values = first.map((one) => (typeof one === 'number' ? String(one) : JSON.stringify(plain(one))));
  if (values.length === SHOWN_VALUES) values.push('…');
  return values.length === 0 ? head : `${head}  ${values.join(', ')}`;
}
