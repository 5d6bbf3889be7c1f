/**
 * In: the options of `tune` as they were written. Out: what is measured, and what is wanted of it.
 * Trap: an input's name may hold a colon, a slash or a dot; only the last `=` divides it from its sizes.
 */
import { resolve } from 'node:path';
import { ARCHITECTURES, type Architecture } from '../../infra/prices.ts';
import { wrongUse } from '../command.ts';
import { DATA_ENDINGS, type DataFile, type Sizes } from './inputs.ts';
import type { Aim, Traffic } from './recommend.ts';

/** Ascending: what is commonly chosen below one vCPU, whole vCPUs, and the most there is. */
export const DEFAULT_MEMORIES = [512, 1024, 1769, 3538, 5307, 7076, 8845, 10_240] as const;
export const DEFAULT_SECONDS = 60;
export const DEFAULT_MAX_BATCH = 256;
/** Lambda's runtime and Redis, as docs/costs.md takes them. */
export const DEFAULT_OVERHEAD_MS = 3;

const LEAST_MEMORY_MB = 128;
const MOST_MEMORY_MB = 10_240;
const MOST_MEMORIES = 20;
const MOST_SECONDS = 3_600;
const MOST_BATCH = 10_000;
const MOST_LIMIT_MS = 900_000;
const MOST_OVERHEAD_MS = 10_000;
const MOST_RANK = 16;
const MOST_SIZE = 2 ** 31;

const WHOLE: Kind = { name: 'a whole number', pattern: /^\d{1,9}$/ };
const MS: Kind = { name: 'a number of ms', pattern: /^\d{1,9}(\.\d{1,6})?$/ };

interface TuneValues {
  readonly memory?: string | undefined;
  readonly 'max-batch'?: string | undefined;
  readonly seconds?: string | undefined;
  readonly dim?: readonly string[] | undefined;
  readonly shape?: readonly string[] | undefined;
  readonly data?: readonly string[] | undefined;
  readonly arch?: string | undefined;
  readonly for?: string | undefined;
  readonly latency?: string | undefined;
  readonly aim?: string | undefined;
  readonly overhead?: string | undefined;
}

export interface TuneOptions {
  /** Ascending, each once. */
  readonly memories: readonly number[];
  readonly maxBatch: number;
  readonly limitMs: number;
  readonly sizes: Sizes;
  readonly data: readonly DataFile[];
  readonly arch: Architecture;
  readonly traffic: Traffic;
  /** p99 of a call in ms. */
  readonly latencyMs: number | undefined;
  /** Which recommendation is written. */
  readonly aim: Aim;
  readonly overheadMs: number;
}

/** @throws bad_config naming the option and what was expected */
export function tuneOptionsOf(values: TuneValues): TuneOptions {
  const latencyMs = numberOf('--latency', values.latency, MS, [0.001, MOST_LIMIT_MS], undefined);
  const sizes = { dims: dimsOf(values.dim ?? []), shapes: shapesOf(values.shape ?? []) };
  const data = (values.data ?? []).map(dataFile);
  if (data.length > 0 && (values.dim ?? values.shape) !== undefined) {
    throw wrongUse('--data brings its own sizes; --dim and --shape are for made-up inputs');
  }
  return {
    memories: values.memory === undefined ? DEFAULT_MEMORIES : memoriesOf(values.memory),
    maxBatch: numberOf('--max-batch', values['max-batch'], WHOLE, [1, MOST_BATCH], DEFAULT_MAX_BATCH),
    limitMs: numberOf('--seconds', values.seconds, WHOLE, [1, MOST_SECONDS], DEFAULT_SECONDS) * 1000,
    sizes,
    data,
    arch: choice('--arch', values.arch, ARCHITECTURES, 'x86_64'),
    traffic: choice('--for', values.for, ['predict', 'batch', 'both'], 'both'),
    latencyMs,
    aim: choice(
      '--aim',
      values.aim,
      ['cheapest', 'latency'],
      latencyMs === undefined ? 'cheapest' : 'latency',
    ),
    overheadMs: numberOf('--overhead', values.overhead, MS, [0, MOST_OVERHEAD_MS], DEFAULT_OVERHEAD_MS),
  };
}

function memoriesOf(text: string): readonly number[] {
  const parts = text.split(',').map((part) => part.trim());
  const numbers = parts.map((part) => (/^\d{1,6}$/.test(part) ? Number(part) : Number.NaN));
  const isRight = numbers.every((number) => number >= LEAST_MEMORY_MB && number <= MOST_MEMORY_MB);
  if (!isRight || numbers.length > MOST_MEMORIES) {
    throw wrongUse(
      `--memory: expected up to ${MOST_MEMORIES} numbers from ${LEAST_MEMORY_MB} to ${MOST_MEMORY_MB}, e.g. 1769,3538, got ${JSON.stringify(text)}`,
    );
  }
  return [...new Set(numbers)].toSorted((a, b) => a - b);
}

function dimsOf(texts: readonly string[]): Readonly<Record<string, number>> {
  return recordOf('--dim', texts, 'name=size, e.g. height=224', (text) => sizeOf(text.trim()));
}

function shapesOf(texts: readonly string[]): Readonly<Record<string, readonly number[]>> {
  return recordOf('--shape', texts, 'input=sizes, e.g. data=1,3,224,224', (text) => {
    const sizes = text
      .trim()
      .replace(/^\[(.*)\]$/, '$1')
      .split(',')
      .map((part) => sizeOf(part.trim()));
    return sizes.length <= MOST_RANK && sizes.every((size) => size !== undefined) ? sizes : undefined;
  });
}

function sizeOf(text: string): number | undefined {
  const size = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  return size >= 1 && size < MOST_SIZE ? size : undefined;
}

function recordOf<T>(
  option: string,
  texts: readonly string[],
  expected: string,
  read: (text: string) => T | undefined,
): Readonly<Record<string, T>> {
  const found = new Map<string, T>();
  for (const text of texts) {
    const [, name = '', given = ''] = /^(.+)=([^=]*)$/.exec(text) ?? [];
    const value = read(given);
    if (name === '' || name === '__proto__' || value === undefined) {
      throw wrongUse(`${option}: expected ${expected}, got ${JSON.stringify(text)}`);
    }
    if (found.has(name)) throw wrongUse(`${option}: ${JSON.stringify(name)} is given twice`);
    found.set(name, value);
  }
  return Object.fromEntries(found);
}

function dataFile(text: string): DataFile {
  // The first `=` ends a name; those of the path come after it.
  const equals = text.indexOf('=');
  const input = equals > 0 ? text.slice(0, equals) : undefined;
  const path = equals > 0 ? text.slice(equals + 1) : text;
  if (!DATA_ENDINGS.some((ending) => path.toLowerCase().endsWith(ending))) {
    throw wrongUse(
      `--data: expected a file, or input=file, ending in ${DATA_ENDINGS.join(', ')}, got ${JSON.stringify(text)}`,
    );
  }
  return { input, path: resolve(path) };
}

interface Kind {
  readonly name: string;
  readonly pattern: RegExp;
}

function numberOf<Otherwise>(
  option: string,
  text: string | undefined,
  kind: Kind,
  [least, most]: readonly [number, number],
  otherwise: Otherwise,
): number | Otherwise {
  if (text === undefined) return otherwise;
  const number = kind.pattern.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw wrongUse(`${option}: expected ${kind.name} from ${least} to ${most}, got ${JSON.stringify(text)}`);
}

function choice<T extends string>(
  option: string,
  text: string | undefined,
  words: readonly T[],
  otherwise: T,
): T {
  if (text === undefined) return otherwise;
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw wrongUse(`${option}: expected ${words.join(', ')}, got ${JSON.stringify(text)}`);
}
