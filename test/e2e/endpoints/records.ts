/** Makes records for a model by a seed: most are right and at the edges of their dtypes, some are wrong in one way. */
import type { DType } from '../../../lib/contract/tensor.ts';
import type { ValueSpec } from '../../support/onnx.ts';
import type { EndpointModel } from './models.ts';
import type { Element, Fault, Sent, SentRecord } from './record.ts';

export type Random = () => number;

const TEXTS = [
  '', 'a', ' a ', 'ä', 'e\u0301', '😀', 'a,b', '"', '""', "'", '\\', '\\n', 'a\nb', 'a\r\nb', '\t', '\u0000', '\ufeffa', '\ufffe',
  '\u2028', 'NaN', '1.0', '01', 'null', 'true', '{"b64":"YQ=="}', '{value=1}', 'data:,a', '__proto__', '=1+1', '-', 'YQ==', 'x'.repeat(300),
]; // biome-ignore format: a list of words
const FLOATS = [
  0,
  -0,
  1,
  -1,
  0.1,
  -2.5,
  1e-3,
  16_777_217,
  3.4028234663852886e38,
  1.401298464324817e-45,
  1e-40,
  0.30000001192092896,
  NaN,
  Infinity,
  -Infinity,
];
const LARGE = [2n ** 53n + 1n, -(2n ** 53n) - 1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n - 1n];

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;

/** Least and most of each dtype of whole numbers. */
export const RANGES: Readonly<Partial<Record<DType, readonly [bigint, bigint]>>> = {
  int8: [-128n, 127n],
  int16: [-32_768n, 32_767n],
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint8: [0n, 255n],
  uint16: [0n, 65_535n],
  uint32: [0n, 2n ** 32n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
};

function elementOf(dtype: DType, random: Random, below: number | undefined): Element {
  if (below !== undefined) return BigInt(Math.floor(random() * below));
  if (dtype === 'string') return pick(random, TEXTS);
  if (dtype === 'bool') return random() < 0.5;
  if (dtype === 'float64')
    return pick(random, [...FLOATS, 1e300, 5e-324, 0.1 + 0.2, Math.PI * 10 ** (40 * random() - 20)]);
  if (dtype === 'float16')
    return Math.f16round(pick(random, [0, -0, 1, 0.1, 65_504, 6e-8, 100 * random() - 50]));
  if (dtype === 'float32') return Math.fround(pick(random, [...FLOATS, 1e6 * random(), 2 * random() - 1]));
  const [least, most] = RANGES[dtype] as readonly [bigint, bigint];
  const all = [0n, 1n, least, most, least + 1n, ...LARGE, BigInt(Math.floor(1000 * random()))];
  return pick(
    random,
    all.filter((value) => value >= least && value <= most),
  );
}

/** A right value of an input, without the batch axis, with free sizes from 1 to 4. */
function sentOf({ dtype, shape = [] }: ValueSpec, random: Random, { below }: EndpointModel): Sent {
  const dims = shape.slice(1).map((dim) => (typeof dim === 'number' ? dim : 1 + Math.floor(4 * random())));
  const count = dims.reduce((product, dim) => product * dim, 1);
  return { dtype, shape: dims, data: Array.from({ length: count }, () => elementOf(dtype, random, below)) };
}

const FAULTS: readonly Fault[] = ['unknown name', 'near name', 'missing', 'extra', 'shape', 'value'];
/** Of a hundred records. */
const WRONG = 35;

export function recordOf(model: EndpointModel, random: Random): SentRecord {
  // The order of names means nothing.
  const specs = random() < 0.5 ? model.inputs : model.inputs.toReversed();
  const inputs = Object.fromEntries(specs.map((spec) => [spec.name, sentOf(spec, random, model)]));
  if (random() * 100 >= WRONG) return { inputs };
  const fault = pick(random, FAULTS);
  const name = pick(random, model.inputs).name;
  const changed = faulty(inputs, name, fault, random);
  return changed ? { inputs: changed, fault } : { inputs };
}

type Inputs = Readonly<Record<string, Sent>>;

/** @returns undefined where the record cannot have this fault */
function faulty(inputs: Inputs, name: string, fault: Fault, random: Random): Inputs | undefined {
  const sent = inputs[name] as Sent;
  const renamed = (to: string) => {
    if (Object.hasOwn(inputs, to)) return undefined;
    return Object.fromEntries(Object.entries(inputs).map(([key, each]) => [key === name ? to : key, each]));
  };
  switch (fault) {
    case 'unknown name':
      // One input that means nothing to the model binds, by contract, where a record has no header.
      return Object.keys(inputs).length === 1 ? undefined : renamed('zzz');
    case 'near name':
      return renamed(pick(random, [name.toUpperCase(), `${name} `, ` ${name}`, `${name}_`, `${name} (m)`]));
    case 'missing': {
      const left = Object.entries(inputs).filter(([key]) => key !== name);
      return left.length === 0 ? undefined : Object.fromEntries(left);
    }
    case 'extra':
      return { ...inputs, zzz: sent };
    case 'shape':
      return { ...inputs, [name]: reshaped(sent, random) };
    case 'value': {
      const value = wrongValue(sent.dtype, random);
      if (!value) return undefined;
      const { dtype, element } = value;
      const others = sent.data.slice(1).map(() => (dtype === 'float64' ? 0 : 0n));
      return { ...inputs, [name]: { dtype, shape: sent.shape, data: [element, ...others] } };
    }
  }
}

/** One axis more, an axis less, or an element more. */
function reshaped({ dtype, shape, data }: Sent, random: Random): Sent {
  const first = data[0] as Element;
  const ways: Sent[] = [
    { dtype, shape: [2, ...shape], data: [...data, ...data] },
    { dtype, shape: [...shape, 2], data: data.flatMap((each) => [each, each]) },
  ];
  if (shape.length > 0) {
    const row = data.length / (shape[0] as number);
    ways.push({
      dtype,
      shape: [(shape[0] as number) + 1, ...shape.slice(1)],
      data: [...data, ...data.slice(0, row)],
    });
  }
  if (shape.length > 1) ways.push({ dtype, shape: [1], data: [first] });
  return pick(random, ways);
}

/** An element that the dtype cannot hold, with a dtype that can; undefined where every element of its kind is right. */
function wrongValue(
  dtype: DType,
  random: Random,
): { readonly dtype: DType; readonly element: Element } | undefined {
  const range = RANGES[dtype];
  if (range) {
    const [least, most] = range;
    return pick(random, [
      { dtype: 'float64', element: 1.5 } as const,
      { dtype: 'float64', element: Number(most) * 4 } as const,
      ...(most < 2n ** 62n ? [{ dtype: 'int64', element: most + 1n } as const] : []),
      ...(least > -(2n ** 62n) ? [{ dtype: 'int64', element: least - 1n } as const] : []),
    ]);
  }
  if (dtype === 'bool') return { dtype: 'int8', element: 2n };
  if (dtype === 'float32') return { dtype: 'float64', element: pick(random, [1e39, -1e300]) };
  if (dtype === 'float16') return { dtype: 'float64', element: 70_000 };
  return undefined;
}
