/** Operators that make tensors of sizes and numbers. Random ones are refused. */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { tensorOf } from '../../../graph/numbers.ts';
import type { Context } from '../run/context.ts';
import { type Int, subtract } from '../run/sizes.ts';
import { TensorRef } from '../run/tensor.ts';
import { Float, isInt, itemsOf, type Py, refuse, Scalar } from '../run/values.ts';
import { asFloat } from './numbers.ts';
import type { Args, Rule, Table } from './schema.ts';
import { expand, reshape } from './shaping.ts';

const MAX_ELEMENTS = 2 ** 24;

function filled(c: Context, sizes: readonly Int[], dtype: DType, fill: Py): TensorRef {
  const made = c.tensor(expand(c, c.number(fill, dtype), sizes));
  made.isZero = fill === 0;
  return made;
}

const full =
  (fill: number | undefined, like: boolean): Rule =>
  (c, a) => {
    const sizes = like ? c.shapeOf(a.v('x')) : a.ints('size');
    const value = fill ?? a.raw('value');
    const own = like ? a.tensor('x').dtype : typeOf(value, fill);
    return filled(c, sizes, a.dtype('dtype') ?? own, value);
  };

function typeOf(value: Py, fill: number | undefined): DType {
  if (value instanceof TensorRef) return value.dtype;
  if (fill !== undefined || value instanceof Float) return 'float32';
  if (value instanceof Scalar)
    return value.type === 'float' ? 'float32' : value.type === 'bool' ? 'bool' : 'int64';
  return typeof value === 'boolean' ? 'bool' : 'int64';
}

const newFull =
  (fill: number | undefined): Rule =>
  (c, a) =>
    filled(c, a.ints('size'), a.dtype('dtype') ?? a.tensor('x').dtype, fill ?? a.raw('value'));

function isWhole(value: Py): value is Int {
  return isInt(value);
}

const arange: Rule = (c, a) => {
  const all = [a.raw('start') ?? 0, a.raw('end'), a.raw('step') ?? 1].map((each) =>
    each instanceof TensorRef ? c.scalar(each, each.dtype.startsWith('float') ? 'float' : 'int') : each,
  );
  const dtype =
    a.dtype('dtype') ??
    (all.every((each) => isWhole(each) || typeof each === 'boolean') ? 'int64' : 'float32');
  if (!all.every(isWhole)) {
    const [from, to, by] = all.map(asFloat) as [number, number, number];
    const count = Math.ceil((to - from) / by);
    if (!(count >= 0 && count <= MAX_ELEMENTS)) refuse(`has ${count} elements`);
    return c.g.constant(
      tensorOf(
        dtype,
        [count],
        Array.from({ length: count }, (_, i) => from + i * by),
      ),
    );
  }
  const [from, to, by] = all as [Int, Int, Int];
  if (typeof from === 'number' && typeof to === 'number' && typeof by === 'number') {
    const count = Math.max(0, Math.ceil((to - from) / by));
    if (count > MAX_ELEMENTS) refuse(`has ${count} elements`);
    return c.g.constant(
      tensorOf(
        dtype,
        [count],
        Array.from({ length: count }, (_, i) => from + i * by),
      ),
    );
  }
  const made = c.one(
    'Range',
    all.map((each) => c.number(each, 'int64')),
  );
  const length = by === 1 ? subtract(to, from) : undefined;
  const ref = c.tensor(c.cast(length === undefined ? made : c.shaped(made, [length]), dtype));
  if (from === 0) ref.even = by;
  return ref;
};

const linspace: Rule = (c, a) => {
  const [start, end, steps] = [a.float('start'), a.float('end'), a.n('steps')];
  if (!(steps >= 0 && steps <= MAX_ELEMENTS)) refuse(`has ${steps} elements`);
  const step = steps > 1 ? (end - start) / (steps - 1) : 0;
  // As torch: the second half counts back from the end.
  const values = Array.from({ length: steps }, (_, i) =>
    i < steps / 2 ? start + i * step : end - (steps - 1 - i) * step,
  );
  return c.g.constant(tensorOf(a.dtype('dtype') ?? 'float32', [steps], values));
};

const eye: Rule = (c, a) => {
  const rows = a.n('n');
  const columns = a.isSet('m') ? a.n('m') : rows;
  if (!(rows * columns <= MAX_ELEMENTS)) refuse(`has ${rows * columns} elements`);
  const values = Array.from({ length: rows * columns }, (_, i) =>
    Math.floor(i / columns) === i % columns ? 1 : 0,
  );
  return c.g.constant(tensorOf(a.dtype('dtype') ?? 'float32', [rows, columns], values));
};

/** Numbers in nested lists. */
function nested(value: Py, depth = 0): { shape: number[]; flat: Py[] } {
  const items = itemsOf(value);
  if (!items) return { shape: [], flat: [value] };
  if (depth > 16) return refuse('has over 16 dimensions');
  const parts = items.map((item) => nested(item, depth + 1));
  const inner = parts[0]?.shape ?? [];
  if (parts.some(({ shape }) => shape.join() !== inner.join()))
    return refuse('has rows of different lengths');
  return { shape: [items.length, ...inner], flat: parts.flatMap(({ flat }) => flat) };
}

const tensor: Rule = (c, a) => {
  const data = a.raw('data');
  if (data instanceof TensorRef) return c.tensor(data.value);
  const { shape, flat } = nested(data);
  const isFloat = flat.some(
    (each) => each instanceof Float || (each instanceof Scalar && each.type === 'float'),
  );
  const isBool = flat.length > 0 && flat.every((each) => typeof each === 'boolean');
  const dtype = a.dtype('dtype') ?? (isFloat || flat.length === 0 ? 'float32' : isBool ? 'bool' : 'int64');
  const [only] = flat;
  if (shape.length === 0 && isInt(only) && dtype === 'int64') return c.known(only);
  const numbers = flat.map((each) => (each instanceof Float ? each.value : Number(each)));
  if (flat.every((each) => each instanceof Float || typeof each === 'number' || typeof each === 'boolean'))
    return c.g.constant(tensorOf(dtype, shape, numbers));
  const parts = flat.map((each) => c.one('Reshape', [c.number(each, dtype), c.g.ints([1])]));
  return reshape(c, c.one('Concat', parts, { axis: 0 }), shape);
};

const random: Rule = () =>
  refuse('draws random numbers, so the same input would give another result each time');

const OPTIONS = '*, int? dtype=None, any layout=None, any device=None, any pin_memory=None';
const LIKE = `${OPTIONS}, any memory_format=None`;

export const CREATION: Table = {
  [`zeros(int[] size, ${OPTIONS}) | empty(int[] size, ${LIKE})`]: full(0, false),
  [`ones(int[] size, ${OPTIONS})`]: full(1, false),
  [`full(int[] size, Scalar value, ${OPTIONS})`]: full(undefined, false),
  [`zeros_like(Tensor x, ${LIKE}) | empty_like(Tensor x, ${LIKE})`]: full(0, true),
  [`ones_like(Tensor x, ${LIKE})`]: full(1, true),
  [`full_like(Tensor x, Scalar value, ${LIKE})`]: full(undefined, true),
  [`new_zeros(Tensor x, int[] size, ${OPTIONS}) | new_empty(Tensor x, int[] size, ${OPTIONS})`]: newFull(0),
  [`new_ones(Tensor x, int[] size, ${OPTIONS})`]: newFull(1),
  [`new_full(Tensor x, int[] size, Scalar value, ${OPTIONS})`]: newFull(undefined),
  [`arange(Scalar end, ${OPTIONS}) | arange(Scalar start, Scalar end, ${OPTIONS}) | arange(Scalar start, Scalar end, Scalar step, ${OPTIONS})`]:
    (c, a: Args) => arange(c, a),
  [`linspace(Scalar start, Scalar end, int steps=100, ${OPTIONS})`]: linspace,
  [`eye(int n, ${OPTIONS}) | eye(int n, int m, ${OPTIONS})`]: eye,
  'tensor(any data, int? dtype=None, any device=None, bool requires_grad=False) | as_tensor(any data, int? dtype=None, any device=None)':
    tensor,
  [`scalar_tensor(Scalar data, ${OPTIONS})`]: tensor,
  [`rand(int[] size, ${OPTIONS}) | randn(int[] size, ${OPTIONS}) | rand_like(Tensor x, ${LIKE}) | randn_like(Tensor x, ${LIKE}) | bernoulli(Tensor x, any p=None) | multinomial(Tensor x, int count, bool replacement=False, any generator=None) | randperm(int n, ${OPTIONS}) | randint(int high, int[] size, ${OPTIONS}) | normal(any mean, any std, any size=None, any generator=None) | uniform(Tensor x, any from=0, any to=1, any generator=None)`]:
    random,
};
