/** One record as every endpoint takes it, and what comes back: in forms that can be compared element by element. */
import type { DType } from '../../../lib/contract/tensor.ts';

export type Element = number | bigint | string | boolean;

/** The value of an input without a batch axis, in row-major order. */
export interface Sent {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: readonly Element[];
}

export interface SentRecord {
  readonly inputs: Readonly<Record<string, Sent>>;
  /** What is wrong with it, or nothing: for messages, and for endpoints that take such a record by contract. */
  readonly fault?: Fault;
}

export type Fault = 'unknown name' | 'near name' | 'missing' | 'extra' | 'shape' | 'value';

export interface Output {
  readonly name?: string | undefined;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** What an endpoint says to one record. */
export type Said =
  | { readonly ok: true; readonly outputs: readonly Output[] }
  | { readonly ok: false; readonly code: string; readonly message: string };

/** A text of JSON as Python writes it: whole numbers keep all their digits, and NaN and infinities are words. */
export function exactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') return Object.is(value, -0) ? '-0.0' : String(value);
  if (Array.isArray(value)) return `[${value.map(exactJson).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}:${exactJson(each)}`);
    return `{${entries.join(',')}}`;
  }
  return JSON.stringify(value);
}

/** Reads JSON, with whole numbers beyond 2^53 as bigints. The words of TensorFlow Serving become texts. */
export function readExact(text: string): unknown {
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (found) =>
    found.startsWith('"') ? found : `"${found}"`,
  );
  const revive = (_key: string, value: unknown, { source = '' }: { source?: string }) =>
    typeof value === 'number' && /^-?\d+$/.test(source) && !Number.isSafeInteger(value)
      ? BigInt(source)
      : value;
  return JSON.parse(quoted, revive as (key: string, value: unknown) => unknown);
}

/** A tensor's elements as nested lists; a scalar is its element. */
export function nestedOf({ shape, data }: Pick<Sent, 'shape' | 'data'>): unknown {
  const [first, ...rest] = shape;
  if (first === undefined) return data[0];
  const size = data.length / Math.max(1, first);
  return Array.from({ length: first }, (_, i) =>
    nestedOf({ shape: rest, data: data.slice(i * size, (i + 1) * size) }),
  );
}

/** The shape and elements of nested lists. `{"b64": …}` is a text of TensorFlow Serving. */
export function flatOf(value: unknown): Pick<Output, 'shape' | 'data'> {
  if (!Array.isArray(value)) {
    const isBytes = typeof value === 'object' && value !== null && 'b64' in value;
    return { shape: [], data: [isBytes ? Buffer.from(String(value.b64), 'base64').toString() : value] };
  }
  const parts = value.map(flatOf);
  return { shape: [value.length, ...(parts[0]?.shape ?? [])], data: parts.flatMap(({ data }) => [...data]) };
}

/** An element as a text that is the same for the same value of this dtype, however an endpoint wrote it. */
export function canonical(dtype: DType, value: unknown): string {
  if (dtype === 'string') return JSON.stringify(value);
  if (dtype === 'bool') return String(Boolean(value));
  if (dtype.endsWith('int64')) return BigInt(value as number | bigint | string).toString();
  // JSON has neither NaN nor infinities: null stands for both.
  const number = value === null ? Number.NaN : Number(value);
  if (!Number.isFinite(number)) return 'not finite';
  const rounded =
    dtype === 'float32' ? Math.fround(number) : dtype === 'float16' ? Math.f16round(number) : number;
  return Object.is(rounded, -0) ? '-0' : String(rounded);
}
