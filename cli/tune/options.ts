/** The options of `tune`. An input's name may hold a colon, a slash or a dot; only the last `=` separates its sizes. */
import { resolve } from 'node:path';
import { ARCHITECTURES } from '../../lib/contract/prices.ts';
import { unexpected, type Values, wrongUse } from '../command.ts';
import { YES } from '../service.ts';
import { DATA_ENDINGS, type DataFile, type Sizes } from './inputs.ts';
import type { Aim } from './recommend.ts';

/** Common values below one vCPU, whole vCPUs, and the maximum. */
const MEMORIES = '512,1024,1769,3538,5307,7076,8845,10240';
const MEMORY_RANGE = [128, 10_240] as const;
const MOST_MEMORIES = 20;
const MOST_RANK = 16;
const MOST_SIZE = 2 ** 31;
const MOST_MS = 900_000;

export const OPTIONS = {
  model: {
    value: 'path',
    about:
      "model directory, *.onnx file, s3://bucket/prefix or hf://org/name@revision (default: the config's modelPath)",
  },
  config: {
    short: 'c',
    value: 'file',
    about: 'config (default: ./config.yaml, without --model or to --write)',
  },
  seconds: { value: 'n', range: [1, 3_600], default: 60, about: 'about how long it may take' },
  'max-batch': {
    value: 'n',
    range: [1, 10_000],
    default: 256,
    about: 'most records of an event, within 6 MB',
  },
  memory: { value: 'MB,MB,...', default: MEMORIES, about: 'values of function.memoryMB' },
  dim: { value: 'name=size', multiple: true, about: 'free size of the model, not the batch: height=224' },
  shape: { value: 'input=sizes', multiple: true, about: 'whole shape of an input: data=1,3,224,224' },
  data: {
    value: '[input=]file',
    multiple: true,
    about: 'real inputs: .npy, a picture, or a request in .json',
  },
  for: { choices: ['predict', 'batch', 'both'], default: 'both', about: 'traffic that the settings are for' },
  latency: {
    value: 'ms',
    range: [0.001, MOST_MS],
    decimals: true,
    about: 'p99 that a call should stay below',
  },
  aim: {
    choices: ['cheapest', 'latency'],
    about: 'what --write writes (default cheapest; with --latency, latency)',
  },
  arch: { choices: ARCHITECTURES, default: 'x86_64', about: 'whose price counts' },
  overhead: {
    value: 'ms',
    range: [0, 10_000],
    decimals: true,
    default: 3,
    about: 'what Lambda and Redis add',
  },
  write: { about: 'write the settings into the config, comments kept; shows the changes and asks' },
  yes: YES,
} as const;

export type TuneOptions = ReturnType<typeof tuneOptionsOf>;

/** @throws bad_config naming the option and what was expected */
export function tuneOptionsOf(values: Values<typeof OPTIONS>) {
  const { dim, shape, latency, aim } = values;
  const sizes: Sizes = {
    dims: recordOf('dim', dim ?? [], 'name=size, e.g. height=224', sizeOf),
    shapes: recordOf('shape', shape ?? [], 'input=sizes, e.g. data=1,3,224,224', shapeOf),
  };
  const data = (values.data ?? []).map(dataFile);
  if (data.length > 0 && (dim ?? shape) !== undefined) {
    throw wrongUse('--data brings its own sizes; --dim and --shape are for made-up inputs');
  }
  const otherwise: Aim = latency === undefined ? 'cheapest' : 'latency';
  return {
    /** Ascending, each once. */
    memories: memoriesOf(values.memory),
    maxBatch: values['max-batch'],
    limitMs: values.seconds * 1000,
    sizes,
    data,
    arch: values.arch,
    traffic: values.for,
    /** p99 of a call in ms. */
    latencyMs: latency,
    /** Which recommendation is written. */
    aim: aim ?? otherwise,
    overheadMs: values.overhead,
  };
}

function memoriesOf(text: string): readonly number[] {
  const [least, most] = MEMORY_RANGE;
  const numbers = text.split(',').map((part) => (/^ *\d{1,6} *$/.test(part) ? Number(part) : Number.NaN));
  const isRight = numbers.every((number) => number >= least && number <= most);
  if (isRight && numbers.length <= MOST_MEMORIES) return [...new Set(numbers)].toSorted((a, b) => a - b);
  throw unexpected('memory', `up to ${MOST_MEMORIES} numbers from ${least} to ${most}, e.g. 1769,3538`, text);
}

function shapeOf(text: string): readonly number[] | undefined {
  const [, inner = text] = /^ *\[(.*)\] *$/.exec(text) ?? [];
  const sizes = inner.split(',').map(sizeOf);
  return sizes.length <= MOST_RANK && sizes.every((size) => size !== undefined) ? sizes : undefined;
}

function sizeOf(text: string): number | undefined {
  const size = /^ *\d{1,10} *$/.test(text) ? Number(text) : 0;
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
    if (name === '' || name === '__proto__' || value === undefined) throw unexpected(option, expected, text);
    if (found.has(name)) throw wrongUse(`--${option}: ${JSON.stringify(name)} is given twice`);
    found.set(name, value);
  }
  return Object.fromEntries(found);
}

function dataFile(text: string): DataFile {
  // The first `=` ends the name; others belong to the path.
  const equals = text.indexOf('=');
  const path = equals > 0 ? text.slice(equals + 1) : text;
  const isKnown = DATA_ENDINGS.some((ending) => path.toLowerCase().endsWith(ending));
  if (isKnown) return { input: equals > 0 ? text.slice(0, equals) : undefined, path: resolve(path) };
  throw unexpected('data', `a file, or input=file, ending in ${DATA_ENDINGS.join(', ')}`, text);
}
