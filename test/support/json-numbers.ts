/** Texts of numbers and bodies with arrays of them, from a seed, and what the two ways to read a body make of one. */
import { hash } from 'node:crypto';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { openNumbers, parseInstances } from '../../lib/codecs/numbers/parse.ts';
import { decodeInference } from '../../lib/codecs/open-inference/request.ts';
import { decodeServing } from '../../lib/codecs/tensorflow-serving/request.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { contentOf, JsonNumbers, type JsonValue, type NumberParts } from '../../lib/contract/json-numbers.ts';
import type { DType, Tensor } from '../../lib/contract/tensor.ts';
import { jsonTensor } from '../../lib/pipeline/bind/numbers.ts';

export type Random = () => number;

/** Numbers in [0, 1), the same ones for a seed. */
export function seeded(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const below = (random: Random, limit: number) => Math.floor(random() * limit);
const view = new DataView(new ArrayBuffer(8));

/** A double of random bits. */
function double(random: Random): number {
  view.setUint32(0, below(random, 2 ** 32));
  view.setUint32(4, below(random, 2 ** 32));
  const value = view.getFloat64(0);
  return Number.isFinite(value) ? value : 0.1;
}

function float(random: Random): number {
  view.setUint32(0, below(random, 2 ** 32));
  const value = view.getFloat32(0);
  return Number.isFinite(value) ? value : 0.1;
}

/** Exactly between two doubles, or all but so. */
function halfway(random: Random): string {
  const odd = (BigInt(2 ** 52) + BigInt(below(random, 2 ** 52))) * 2n + 1n;
  const digits = (odd * 5n ** 53n).toString();
  return `${digits.slice(0, 1)}.${digits.slice(1, 12 + below(random, 10))}`;
}

/**
 * Exactly between two float32 or beside it, as far as that many digits express it: up to the 18 that one path of the
 * scanner accepts.
 */
function halfwayFloat(random: Random): string {
  const value = (2 ** 24 + 2 * below(random, 2 ** 23) + 1) * 2 ** -(22 + below(random, 10));
  const beside = below(random, 3) - 1;
  const digits = 12 + below(random, 7);
  const scaled = BigInt(Math.round(value * 2 ** 32)) * 10n ** BigInt(digits);
  const text = String((scaled >> 32n) + BigInt(beside)).padStart(digits + 1, '0');
  return `${random() < 0.5 ? '-' : ''}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** Writers of a number, by kind. */
export const NUMBER_TEXTS: readonly ((random: Random) => string)[] = [
  (random) => String(double(random)),
  (random) => String(Math.fround(random() * 2 - 1)),
  (random) => String(float(random)),
  (random) => String(random() - random()),
  (random) => String(below(random, 256)),
  (random) => (random() * 2 - 1).toFixed(below(random, 25)),
  (random) => (random() * 10 ** below(random, 15)).toPrecision(1 + below(random, 25)),
  (random) => (double(random) / 2).toExponential(below(random, 20)),
  (random) => String(below(random, 1e15)),
  (random) => `${below(random, 1e15)}e${below(random, 60) - 30}`,
  halfway,
  (random) => `${below(random, 2 ** 49)}.5`,
  (random) =>
    ['-0', '-0.0e5', '0E0', '1e+5', '0.0', '5e-324', '1.7976931348623157e308'][below(random, 7)] as string,
  (random) => `0.000${below(random, 1e15)}${below(random, 1e4)}`,
  halfwayFloat,
];

/** How many of `count` numbers are read otherwise than JSON.parse does, as doubles or as float32. */
export async function differing(seed: number, count: number): Promise<number> {
  const { Scanner } = await import('../../lib/codecs/numbers/scan.ts');
  const scanner = await Scanner.open();
  const random = seeded(seed);
  let wrong = 0;
  for (let done = 0; done < count; ) {
    const kind = below(random, NUMBER_TEXTS.length + 2);
    const texts = Array.from({ length: 5_000 }, () => {
      const write = NUMBER_TEXTS[kind] ?? NUMBER_TEXTS[below(random, NUMBER_TEXTS.length)];
      return (write as (typeof NUMBER_TEXTS)[number])(random);
    });
    const text = `[${texts.join([',', ', ', ' ,\n'][below(random, 3)])}]`;
    const doubles = JSON.parse(text) as number[];
    const singles = doubles.map(Math.fround);
    // One with 16 digits in front of the point is left to JSON.parse, and its array with it. So is what float32 does not hold.
    const isLeft = texts.some((one) => /^-?\d{16}/.test(one));
    for (const [precision, expected] of [
      ['float64', doubles],
      ['float32', singles],
    ] as const) {
      scanner.precision = precision;
      scanner.text = text;
      const read = scanner.read(0)?.numbers.parts(precision);
      if (read === undefined) wrong += isLeft || !expected.every(Number.isFinite) ? 0 : texts.length;
      else wrong += unlike(read, expected);
    }
    done += texts.length;
  }
  return wrong;
}

function unlike(parts: NumberParts, expected: readonly number[]): number {
  const read = parts.flatMap((part) => [...part]);
  return read.length === expected.length
    ? expected.filter((number, i) => !Object.is(read[i], number)).length
    : expected.length;
}

const DTYPES: readonly DType[] = ['float32', 'float64', 'uint8', 'int64', 'bool'];

/** The tensors of each dtype for a content, or the error of each. */
function tensorsOf(content: unknown): unknown {
  return DTYPES.map((dtype) => caught(() => bitsOf(jsonTensor(content, dtype, dtype === 'float64'))));
}

function bitsOf({ dtype, shape, data }: Tensor): unknown {
  const bits = ArrayBuffer.isView(data)
    ? Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex')
    : data;
  return { dtype, shape, bits };
}

function caught(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return { code, message };
  }
}

/** How a body was read: its value, and whether an array of it was cut out. */
export interface Read {
  readonly answer: unknown;
  readonly wasCut: boolean;
}

/** The readers of bodies. */
export const READERS: Readonly<Record<string, (body: string) => Read>> = {
  predict: (body) => {
    let wasCut = false;
    const answer = caught(() =>
      decodeInstances(body, parseInstances).map((inputs) =>
        Array.from(inputs, ([name, value]) => {
          const content = contentOf(value as JsonValue);
          wasCut ||= content instanceof JsonNumbers;
          return [name, tensorsOf(content), (value as JsonValue).value];
        }),
      ),
    );
    return { answer, wasCut };
  },
  inference: (body) => {
    let wasCut = false;
    const answer = caught(() => {
      const { inputs, ...others } = decodeInference(body, undefined);
      const read = inputs.map((input) => {
        if (!('data' in input)) return input;
        wasCut ||= input.data instanceof JsonNumbers;
        return { ...input, data: caught(() => bitsOf(jsonTensor(input.data, input.dtype))) };
      });
      return { ...others, inputs: read };
    });
    return { answer, wasCut };
  },
  serving: (body) => {
    let wasCut = false;
    const answer = caught(() => {
      const { values, ...others } = decodeServing(body, 'predict');
      const read = Array.from(values, ([name, value]) => {
        wasCut ||= value instanceof JsonNumbers;
        return [name, tensorsOf(value)];
      });
      return { ...others, read };
    });
    return { answer, wasCut };
  },
};

/** JSON.stringify refuses integers beyond 2^53 that were read with all their digits. */
function digestOf(answer: unknown): string {
  return hash(
    'sha1',
    JSON.stringify(answer, (_, value) => (typeof value === 'bigint' ? `${value}n` : value)),
  );
}

/** Texts that replace a number, or are inserted anywhere into the text. */
const ODD = [
  'null',
  'true',
  '"x"',
  '[]',
  '[1]',
  '{}',
  'NaN',
  '-Infinity',
  '-0',
  '1e39',
  '1e400',
  '-1e400',
  '01',
  '1.',
  '.5',
  '-',
  '+1',
  '1e',
  '300',
  '-1',
  '1.5',
  '65504',
  '2147483648',
  '9007199254740991',
  '9007199254740993',
  '-9223372036854775808',
  '18446744073709551615',
  '123456789012345678901234567890',
  '0.1234567890123456789012345678901234567890',
  '1e-400',
  '"\\u00010"',
  '"\\u0001"',
  '"a[1,2"',
  '"\\"[1"',
  '[',
  ']',
  '{',
  '}',
  ',',
  ':',
  '"',
  '\\',
  ' ',
  '\n',
  'e',
  'é',
  '\u0001',
];

function nested(random: Random, shape: readonly number[], write: (random: Random) => string): string {
  const [length, ...rest] = shape;
  if (length === undefined) return write(random);
  return `[${Array.from({ length }, () => nested(random, rest, write)).join(random() < 0.1 ? ', ' : ',')}]`;
}

/** An array of some 600 numbers or a few. */
function array(random: Random): string {
  const shape = [[700], [3, 200], [2, 3, 100], [1, 2, 2, 150], [40], [3], [20, 31]][
    below(random, 7)
  ] as number[];
  return nested(
    random,
    shape,
    NUMBER_TEXTS[below(random, NUMBER_TEXTS.length)] as (typeof NUMBER_TEXTS)[number],
  );
}

function wholeBody(random: Random, reader: string): string {
  const rest = `"k":"a b [1] \\n ${random() < 0.1 ? '\\u00e9' : ''}"`;
  const [one, two] = [array(random), array(random)];
  if (reader === 'inference') {
    const datatype = ['FP32', 'FP64', 'INT64', 'UINT8'][below(random, 4)] as string;
    const input = (name: string, data: string) =>
      `{"name":"${name}","shape":[700],"datatype":"${datatype}","data":${data}}`;
    return `{"id":"7","inputs":[${input('x', one)},${input(random() < 0.1 ? 'x' : 'y', two)}]}`;
  }
  if (reader === 'serving')
    return [
      `{"instances":${one}}`,
      `{"inputs":{"x":${one},"y":${two}}}`,
      `{"instances":[{"x":${one}}]}`,
      `{"inputs":${two}}`,
    ][below(random, 4)] as string;
  return [
    `{"instances":[{"x":${one}}]}`,
    `{"instances":[{"x":${one},"y":${two},${rest}}]}`,
    `{"instances":[{"x":${one},"x":${two}},{"1":${two},"0":${one}}]}`,
    `{"instances":[{"x":{"shape":[700],"data":${one},"indices":${two}}},{"x":${one}}]}`,
    `{"instances":[{"x":${one}}],"instances":[{"x":${two}}]}`,
    `{${rest},"instances":[{"x":"text"},{"x":${one}}, {"x":[${one},${two}]}]}`,
  ][below(random, 6)] as string;
}

/** A body for a reader, mostly with a fault or something unusual. */
export function mutated(random: Random, reader: string): string {
  let text = wholeBody(random, reader);
  for (let left = below(random, 3); left > 0; left--) {
    const at = below(random, text.length);
    const odd = ODD[below(random, ODD.length)] as string;
    if (random() < 0.6) {
      // One number, if one stands there.
      text = text.slice(0, at) + text.slice(at).replace(/(?<=[[,] ?)-?[\d.eE+-]+(?=[\],])/, () => odd);
    } else if (random() < 0.5) text = text.slice(0, at) + odd + text.slice(at + below(random, 2));
    else if (random() < 0.3) text = text.slice(0, at);
    else text = text.slice(0, at) + text.slice(at + 1 + below(random, 3));
  }
  return text;
}

/**
 * Reads bodies with JSON.parse alone, and then with what cuts arrays out, which opens only when this gives it time. Returns the
 * bodies that were read differently, and of how many an array was cut out. Can be called once in a process.
 */
export async function compareReaders(seed: number, count: number) {
  const random = seeded(seed);
  const names = Object.keys(READERS);
  const bodies = Array.from({ length: count }, (_, i) => {
    const reader = names[i % names.length] as string;
    return { read: READERS[reader] as (typeof READERS)[string], text: mutated(random, reader) };
  });
  const expected = bodies.map(({ read, text }) => {
    const { answer, wasCut } = read(text);
    if (wasCut) throw new Error('the scanner is open already');
    return digestOf(answer);
  });
  await openNumbers();
  const different: string[] = [];
  let cut = 0;
  for (const [i, { read, text }] of bodies.entries()) {
    const { answer, wasCut } = read(text);
    if (wasCut) cut++;
    if (digestOf(answer) !== expected[i]) different.push(text);
  }
  return { different, cut };
}
