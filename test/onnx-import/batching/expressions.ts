/** Random arithmetic on the sizes of two inputs and on constants at the edges of their types, from a seed. */
import { allocate, type DType } from '../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../../onnx-import/graph/attributes.ts';
import type { NodeSpec, WeightSpec } from '../../support/onnx.ts';
import { random } from './random-graphs.ts';

export type Numeric = Exclude<DType, 'string'>;
export type Values = readonly (number | bigint)[];

/** Where types wrap, round and saturate. None is 0 or -1, by which the processor refuses to divide. */
export const EDGES: Readonly<Record<Numeric, Values>> = {
  uint8: [1, 2, 3, 100, 200, 255],
  int8: [1, 2, 3, 100, 127, -128, -7],
  uint16: [1, 3, 40_000, 65_535],
  int16: [1, 3, 30_000, 32_767, -32_768],
  int32: [1, 2, 7, 46_341, 2 ** 30, 2 ** 31 - 1, -(2 ** 31), -7],
  uint32: [1, 3, 2 ** 31, 2 ** 32 - 1],
  int64: [
    1n,
    7n,
    41n,
    -7n,
    2n ** 24n + 1n,
    2n ** 31n,
    2n ** 32n + 1n,
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 53n + 1n,
    2n ** 62n,
    2n ** 63n - 1n,
    -(2n ** 63n),
  ],
  uint64: [1n, 3n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n],
  float32: [1, 0.1, 0.2, 133, 16_777_216, 3e38, -0.5, 1e-40, Number.NaN, Number.POSITIVE_INFINITY],
  float64: [1, 0.1, 0.2, 133, 2 ** 53, 1e308, -0.5, Number.NaN],
  float16: [1, 0.1, 0.2, 3, 2_048, 65_504, -0.5],
  bool: [0, 1],
};

export function weightOf(name: string, dtype: Numeric, values: Values): WeightSpec {
  const shape = [values.length];
  if (dtype === 'float16') return { name, dtype, shape, data: Float16Array.from(values, Number) };
  const data: { [i: number]: number | bigint } & ArrayBufferView = allocate(dtype, values.length);
  for (const [i, value] of values.entries()) data[i] = value;
  return { name, dtype, shape, data };
}

export interface Expression {
  readonly nodes: readonly NodeSpec[];
  readonly weights: readonly WeightSpec[];
  /** Outputs with the type that the file declares for each; their shapes are not declared. */
  readonly outputs: readonly (readonly [name: string, dtype: DType])[];
}

interface Live {
  readonly name: string;
  readonly dtype: Numeric;
  /** Undefined where only the runtime knows it. */
  readonly length: number | undefined;
}

class Expressions {
  readonly next: () => number;
  readonly weights: WeightSpec[] = [];
  readonly nodes: NodeSpec[] = [];
  readonly live: Live[] = [];

  constructor(seed: number) {
    this.next = random(seed);
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T;
  }

  constant(dtype: Numeric, ...values: Values): string {
    const weight = weightOf(`w${this.weights.length}`, dtype, values);
    this.weights.push(weight);
    return weight.name;
  }

  add(
    op: string,
    inputs: readonly string[],
    { dtype, length }: Omit<Live, 'name'>,
    attributes: NodeSpec['attributes'] = {},
  ): string {
    const name = `v${this.nodes.length}`;
    this.nodes.push({ op, inputs, outputs: [name], attributes });
    this.live.push({ name, dtype, length });
    return name;
  }

  /** What can be combined with a value: another one of its type and length, or a constant. */
  other({ dtype, length }: Live): string {
    const others = this.live.filter(
      (item) => item.dtype === dtype && item.length !== undefined && [1, length].includes(item.length),
    );
    return length !== undefined && others.length > 0 && this.next() < 0.5
      ? this.pick(others).name
      : this.constant(dtype, this.pick(EDGES[dtype]));
  }
}

type Step = (g: Expressions, x: Live) => void;

const BOOLEANS: readonly Step[] = [
  (g, x) => g.add('Not', [x.name], x),
  (g, x) => g.add(g.pick(['And', 'Or']), [x.name, g.other(x)], x),
  (g, x) => g.add('Cast', [x.name], { ...x, dtype: 'int64' }, { to: ELEMENT_TYPES.int64 }),
];

const NUMBERS: readonly Step[] = [
  (g, x) => {
    const dtype = g.pick(['int32', 'int64', 'float32', 'bool'] as const);
    g.add('Cast', [x.name], { ...x, dtype }, { to: ELEMENT_TYPES[dtype] });
  },
  (g, x) => g.add(g.pick(['Add', 'Sub', 'Mul', 'Max', 'Min']), [x.name, g.other(x)], x),
  (g, x) => {
    const isLong = x.dtype === 'int64';
    const by = g.constant(x.dtype, isLong ? g.pick([1n, 2n, 3n, 133n, 2n ** 40n]) : g.pick([1, 2, 133]));
    const op = g.pick(['Div', 'Mod']);
    g.add(op, [x.name, by], x, op === 'Mod' && x.dtype === 'float32' ? { fmod: 1 } : {});
  },
  (g, x) => {
    const op = g.pick(['Equal', 'Less', 'Greater', 'GreaterOrEqual', 'LessOrEqual']);
    const other = g.other(x);
    const chosen = g.add(op, [x.name, other], { ...x, dtype: 'bool' });
    g.add('Where', [chosen, x.name, other], x);
  },
  (g, x) => {
    if (x.length === undefined) return;
    const others = g.live.filter(({ dtype, length }) => dtype === x.dtype && length !== undefined);
    const other = g.pick(others);
    g.add('Concat', [x.name, other.name], { ...x, length: x.length + (other.length ?? 0) }, { axis: 0 });
  },
  (g, x) => {
    const ints = [
      g.pick([0n, 1n, -1n, -10n, 10n]),
      g.pick([0n, 1n, 2n ** 31n - 1n, 2n ** 63n - 1n, 2n ** 63n - 2n, -1n, -9n, -(2n ** 63n)]),
      0n,
      g.pick([1n, 1n, -1n, 2n, -2n]),
    ].map((value) => g.constant('int64', value));
    g.add('Slice', [x.name, ...ints], { ...x, length: undefined });
  },
  (g, x) => g.add('ReduceProd', [x.name], { ...x, length: 1 }, { keepdims: 1 }),
  (g, x) => g.add('Neg', [x.name], x),
];

export function randomExpression(seed: number): Expression {
  const g = new Expressions(seed);
  for (const input of ['x', 'z']) {
    const shape = g.add('Shape', [input], { dtype: 'int64', length: 2 });
    const place = g.constant('int64', g.pick([0n, 1n, 1n, -1n]));
    g.add('Gather', [shape, place], { dtype: 'int64', length: 1 });
  }
  for (let step = 0; step < 12; step++) {
    const x = g.pick(g.live);
    g.pick(x.dtype === 'bool' ? BOOLEANS : NUMBERS)(g, x);
  }
  return {
    nodes: g.nodes,
    weights: g.weights,
    outputs: g.live.map(({ name, dtype }) => [name, dtype] as const),
  };
}
