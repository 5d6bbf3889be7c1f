/**
 * In: a node whose inputs are all constants. Out: its outputs, computed now; undefined when it is not computed here.
 * Trap: only what converters need to know (weights moved into ONNX's layout, shapes, axes): the rest onnxruntime folds
 * when it loads the model, with its own kernels.
 */
import { allocate, type DType, elementCount, type Tensor, type TypedArray } from '../../lib/tensor.ts';
import { dtypeOf, int, ints } from './attributes.ts';
import { sliceBounds } from './elements.ts';
import { MAX_FOLDED_ELEMENTS, numbersOf, tensorOf } from './numbers.ts';
import { axisOf, broadcast } from './shapes.ts';
import type { Attributes, Value } from './value.ts';

type Fold = (
  inputs: readonly (Tensor | undefined)[],
  attributes: Attributes,
) => readonly Tensor[] | undefined;

/** Arithmetic is for small constants; weights are only moved. */
const MAX_COMPUTED = 1024 * 1024;

type Elements = TypedArray | string[];

function similar(tensor: Tensor, length: number): Elements {
  return tensor.dtype === 'string' ? new Array<string>(length).fill('') : allocate(tensor.dtype, length);
}

function made(like: Tensor, shape: readonly number[], data: Elements): Tensor {
  return { dtype: like.dtype, shape, data };
}

/** Copies by position: `from(i)` is where element i of the result comes from, -1 leaves it 0. */
function pick(tensor: Tensor, shape: readonly number[], from: (i: number) => number): Tensor {
  const length = elementCount(shape, MAX_FOLDED_ELEMENTS);
  const data = similar(tensor, length) as unknown[];
  const source = tensor.data as unknown as readonly unknown[];
  for (let i = 0; i < length; i++) {
    const at = from(i);
    if (at >= 0) data[i] = source[at];
  }
  return made(tensor, shape, data as unknown as Elements);
}

export function stridesOf(shape: readonly number[]): number[] {
  const strides = shape.map(() => 1);
  for (let i = shape.length - 2; i >= 0; i--)
    strides[i] = (strides[i + 1] as number) * (shape[i + 1] as number);
  return strides;
}

/** Element i of a result of `shape` -> its place, by the source's stride at each axis of the result. */
function walker(shape: readonly number[], steps: readonly number[], offset = 0): (i: number) => number {
  const index = shape.map(() => 0);
  let at = offset;
  let next = 0;
  return (i) => {
    if (i !== next) throw new Error('a walker goes in order');
    next = i + 1;
    const here = at;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis] = (index[axis] as number) + 1;
      at += steps[axis] as number;
      if ((index[axis] as number) < (shape[axis] as number)) break;
      at -= (index[axis] as number) * (steps[axis] as number);
      index[axis] = 0;
    }
    return here;
  };
}

const transpose: Fold = ([x], attributes) => {
  const { shape } = x as Tensor;
  const order = ints(attributes.perm) ?? [...shape.keys()].reverse();
  const strides = stridesOf(shape);
  const result = order.map((axis) => shape[axisOf(axis, shape.length)] as number);
  return [
    pick(
      x as Tensor,
      result,
      walker(
        result,
        order.map((axis) => strides[axis] as number),
      ),
    ),
  ];
};

function spread(x: Tensor, shape: readonly number[]): (i: number) => number {
  const strides = stridesOf(x.shape);
  const lead = shape.length - x.shape.length;
  return walker(
    shape,
    shape.map((_, i) => (i < lead || x.shape[i - lead] === 1 ? 0 : (strides[i - lead] as number))),
  );
}

const expand: Fold = ([x, target]) => {
  const wanted = numbersOf(target as Tensor);
  const shape = wanted && broadcast((x as Tensor).shape, Array.from(wanted), () => '');
  if (!shape || elementCount(shape as number[]) > MAX_COMPUTED) return undefined;
  return [pick(x as Tensor, shape as number[], spread(x as Tensor, shape as number[]))];
};

function binary(compute: (a: number, b: number, whole: boolean) => number, dtype?: DType): Fold {
  return ([x, y]) => {
    const [a, b] = [x as Tensor, y as Tensor];
    const [left, right] = [numbersOf(a), numbersOf(b)];
    if (!left || !right) return undefined;
    const shape = broadcast(a.shape, b.shape, () => '') as readonly number[];
    const length = elementCount(shape);
    if (length > MAX_COMPUTED) return undefined;
    const whole = !a.dtype.startsWith('float');
    const [fromA, fromB] = [spread(a, shape), spread(b, shape)];
    const values = new Float64Array(length);
    for (let i = 0; i < length; i++) {
      values[i] = compute(left[fromA(i)] as number, right[fromB(i)] as number, whole);
    }
    // A whole number that is none (5 / 0) is for the run to refuse.
    if (whole && !dtype && !values.every((value) => Number.isSafeInteger(value))) return undefined;
    return [tensorOf(dtype ?? a.dtype, shape, values)];
  };
}

function unary(compute: (a: number) => number, dtype?: DType): Fold {
  return ([x]) => {
    const tensor = x as Tensor;
    const numbers = tensor.data.length <= MAX_COMPUTED ? numbersOf(tensor) : undefined;
    if (!numbers) return undefined;
    return [tensorOf(dtype ?? tensor.dtype, tensor.shape, Float64Array.from(numbers, compute))];
  };
}

const cast: Fold = ([x], attributes) => {
  const tensor = x as Tensor;
  const to = dtypeOf(attributes.to, tensor.dtype);
  if (to === tensor.dtype) return [tensor];
  if (to === 'string' || to === 'float16') return undefined;
  const numbers = numbersOf(tensor);
  if (!numbers) return undefined;
  if (!to.startsWith('float') && !Array.prototype.every.call(numbers, Number.isFinite)) return undefined;
  return [
    tensorOf(
      to,
      tensor.shape,
      to.startsWith('float') || to === 'bool' ? numbers : Float64Array.from(numbers, Math.trunc),
    ),
  ];
};

const reshape: Fold = ([x, target], attributes) => {
  const tensor = x as Tensor;
  const wanted = numbersOf(target as Tensor);
  if (!wanted) return undefined;
  const keepZero = int(attributes.allowzero, 0) === 0;
  const shape = Array.from(wanted, (dim, i) => (dim === 0 && keepZero ? (tensor.shape[i] ?? 0) : dim));
  const at = shape.indexOf(-1);
  if (at >= 0) shape[at] = tensor.data.length / shape.reduce((a, b) => (b === -1 ? a : a * b), 1);
  if (!shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) return undefined;
  return elementCount(shape) === tensor.data.length ? [{ ...tensor, shape }] : undefined;
};

const squeeze: Fold = ([x, axes]) => {
  const tensor = x as Tensor;
  const listed = axes && numbersOf(axes);
  const gone = listed ? Array.from(listed, (axis) => axisOf(axis, tensor.shape.length)) : undefined;
  const shape = tensor.shape.filter((dim, i) => (gone ? !gone.includes(i) : dim !== 1));
  return [{ ...tensor, shape }];
};

const unsqueeze: Fold = ([x, axes]) => {
  const tensor = x as Tensor;
  const listed = axes && numbersOf(axes);
  if (!listed) return undefined;
  const size = tensor.shape.length + listed.length;
  const added = new Set(Array.from(listed, (axis) => axisOf(axis, size)));
  let next = 0;
  const shape = Array.from({ length: size }, (_, i) => (added.has(i) ? 1 : (tensor.shape[next++] as number)));
  return [{ ...tensor, shape }];
};

const concat: Fold = (inputs, attributes) => {
  const tensors = inputs as readonly Tensor[];
  const first = tensors[0] as Tensor;
  const axis = axisOf(int(attributes.axis, 0), first.shape.length);
  const shape = first.shape.with(
    axis,
    tensors.reduce((sum, tensor) => sum + (tensor.shape[axis] as number), 0),
  );
  const data = similar(first, elementCount(shape, MAX_FOLDED_ELEMENTS)) as unknown[];
  const inner = elementCount(shape.slice(axis + 1));
  const row = (shape[axis] as number) * inner;
  let column = 0;
  for (const tensor of tensors) {
    const width = (tensor.shape[axis] as number) * inner;
    const source = tensor.data as unknown as readonly unknown[];
    for (let i = 0; i < source.length; i++)
      data[Math.floor(i / width) * row + column + (i % width)] = source[i];
    column += width;
  }
  return [made(first, shape, data as unknown as Elements)];
};

const slice: Fold = ([x, starts, ends, axes, steps]) => {
  const tensor = x as Tensor;
  const [from, to, by] = [numbersOf(starts as Tensor), numbersOf(ends as Tensor), steps && numbersOf(steps)];
  const at = axes ? numbersOf(axes) : from && Array.from(from, (_, i) => i);
  if (!from || !to || !at) return undefined;
  const strides = stridesOf(tensor.shape);
  const shape = [...tensor.shape];
  let offset = 0;
  const moves = [...strides];
  for (let i = 0; i < at.length; i++) {
    const axis = axisOf(at[i] as number, shape.length);
    const step = by?.[i] ?? 1;
    const [start, end] = sliceBounds(from[i] as number, to[i] as number, step, tensor.shape[axis] as number);
    shape[axis] = Math.max(0, Math.ceil((end - start) / step));
    offset += start * (strides[axis] as number);
    moves[axis] = (strides[axis] as number) * step;
  }
  return [pick(tensor, shape, walker(shape, moves, offset))];
};

const gather: Fold = ([x, indices], attributes) => {
  const tensor = x as Tensor;
  const at = numbersOf(indices as Tensor);
  const axis = axisOf(int(attributes.axis, 0), tensor.shape.length);
  const size = tensor.shape[axis] as number;
  if (!at || Array.prototype.some.call(at, (i: number) => i < -size || i >= size)) return undefined;
  const inner = elementCount(tensor.shape.slice(axis + 1));
  const shape = [
    ...tensor.shape.slice(0, axis),
    ...(indices as Tensor).shape,
    ...tensor.shape.slice(axis + 1),
  ];
  if (elementCount(shape) > MAX_COMPUTED) return undefined;
  return [
    pick(tensor, shape, (i) => {
      const column = i % inner;
      const which = at[Math.floor(i / inner) % at.length] as number;
      const outer = Math.floor(i / (inner * at.length));
      return (outer * size + (which < 0 ? which + size : which)) * inner + column;
    }),
  ];
};

const range: Fold = (inputs) => {
  const [start, limit, step] = inputs.map((input) => numbersOf(input as Tensor)?.[0]);
  if (start === undefined || limit === undefined || !step) return undefined;
  const length = Math.max(0, Math.ceil((limit - start) / step));
  if (length > MAX_COMPUTED) return undefined;
  const values = Array.from({ length }, (_, i) => start + i * step);
  return [tensorOf((inputs[0] as Tensor).dtype, [length], values)];
};

const constantOfShape: Fold = ([shape], { value }) => {
  const dims = numbersOf(shape as Tensor);
  const fill = typeof value === 'object' && 'tensor' in value ? value.tensor : tensorOf('float32', [1], [0]);
  if (!dims || elementCount(Array.from(dims)) > MAX_COMPUTED) return undefined;
  return [pick(fill, Array.from(dims), () => 0)];
};

function reduce(start: number, step: (a: number, b: number) => number, mean = false): Fold {
  return ([x, axesInput], attributes) => {
    const tensor = x as Tensor;
    const numbers = tensor.data.length <= MAX_COMPUTED ? numbersOf(tensor) : undefined;
    const listed = axesInput ? numbersOf(axesInput) : (ints(attributes.axes) ?? []);
    if (!numbers || !listed || (listed.length === 0 && int(attributes.noop_with_empty_axes, 0) === 1))
      return undefined;
    const rank = tensor.shape.length;
    const gone = new Set(
      listed.length === 0 ? tensor.shape.keys() : Array.from(listed, (axis) => axisOf(axis, rank)),
    );
    const kept = tensor.shape.map((dim, i) => (gone.has(i) ? 1 : dim));
    const place = spread({ dtype: 'float32', shape: kept, data: [] }, tensor.shape);
    const values = new Float64Array(elementCount(kept)).fill(start);
    for (let i = 0; i < numbers.length; i++) {
      const at = place(i);
      values[at] = step(values[at] as number, numbers[i] as number);
    }
    const count = numbers.length / Math.max(1, values.length);
    const result = mean ? values.map((value) => value / count) : values;
    if (!result.every(Number.isFinite)) return undefined;
    const shape = int(attributes.keepdims, 1) === 1 ? kept : tensor.shape.filter((_, i) => !gone.has(i));
    return [tensorOf(tensor.dtype, shape, result)];
  };
}

const tile: Fold = ([x, repeats]) => {
  const tensor = x as Tensor;
  const times = numbersOf(repeats as Tensor);
  if (times?.length !== tensor.shape.length) return undefined;
  const shape = tensor.shape.map((dim, i) => dim * (times[i] as number));
  if (elementCount(shape) > MAX_COMPUTED) return undefined;
  const [strides, own] = [stridesOf(shape), stridesOf(tensor.shape)];
  return [
    pick(tensor, shape, (i) =>
      shape.reduce(
        (at, dim, axis) =>
          at +
          ((Math.floor(i / (strides[axis] as number)) % dim) % (tensor.shape[axis] as number)) *
            (own[axis] as number),
        0,
      ),
    ),
  ];
};

const where: Fold = ([condition, x, y]) => {
  const [c, a, b] = [condition as Tensor, x as Tensor, y as Tensor];
  const shape = broadcast(
    c.shape,
    broadcast(a.shape, b.shape, () => ''),
    () => '',
  ) as readonly number[];
  const length = elementCount(shape);
  if (length > MAX_COMPUTED) return undefined;
  const [fromC, fromA, fromB] = [spread(c, shape), spread(a, shape), spread(b, shape)];
  const data = similar(a, length) as unknown[];
  for (let i = 0; i < length; i++) {
    const [one, other] = [fromA(i), fromB(i)];
    data[i] = c.data[fromC(i)] ? a.data[one] : b.data[other];
  }
  return [made(a, shape, data as unknown as Elements)];
};

const bool = (value: boolean) => (value ? 1 : 0);

const FOLD: Readonly<Record<string, Fold>> = {
  Identity: ([x]) => [x as Tensor],
  Cast: cast,
  Transpose: transpose,
  Reshape: reshape,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Concat: concat,
  Slice: slice,
  Gather: gather,
  Expand: expand,
  Tile: tile,
  Range: range,
  Where: where,
  ConstantOfShape: constantOfShape,
  Shape: ([x]) => [tensorOf('int64', [(x as Tensor).shape.length], (x as Tensor).shape)],
  Size: ([x]) => [tensorOf('int64', [], [(x as Tensor).data.length])],
  Add: binary((a, b) => a + b),
  Sub: binary((a, b) => a - b),
  Mul: binary((a, b) => a * b),
  Div: binary((a, b, whole) => (whole ? Math.trunc(a / b) : a / b)),
  Pow: binary((a, b) => a ** b),
  Max: binary((a, b) => Math.max(a, b)),
  Min: binary((a, b) => Math.min(a, b)),
  Mod: binary((a, b, whole) => (whole ? a - b * Math.floor(a / b) : a % b)),
  Equal: binary((a, b) => bool(a === b), 'bool'),
  Less: binary((a, b) => bool(a < b), 'bool'),
  LessOrEqual: binary((a, b) => bool(a <= b), 'bool'),
  Greater: binary((a, b) => bool(a > b), 'bool'),
  GreaterOrEqual: binary((a, b) => bool(a >= b), 'bool'),
  And: binary((a, b) => bool(a !== 0 && b !== 0), 'bool'),
  Or: binary((a, b) => bool(a !== 0 || b !== 0), 'bool'),
  Not: unary((a) => bool(a === 0)),
  Neg: unary((a) => -a),
  Abs: unary(Math.abs),
  Sqrt: unary(Math.sqrt),
  Reciprocal: unary((a) => 1 / a),
  Exp: unary(Math.exp),
  Log: unary(Math.log),
  Floor: unary(Math.floor),
  Ceil: unary(Math.ceil),
  ReduceProd: reduce(1, (a, b) => a * b),
  ReduceSum: reduce(0, (a, b) => a + b),
  ReduceMean: reduce(0, (a, b) => a + b, true),
  ReduceMax: reduce(-Infinity, Math.max),
  ReduceMin: reduce(Infinity, Math.min),
};

/** Max and Min of three and more, Sum and Mean are left to the run. */
const ARITY: Readonly<Record<string, number>> = { Max: 2, Min: 2 };

export function foldNode(
  op: string,
  inputs: readonly (Value | undefined)[],
  attributes: Attributes,
): readonly Tensor[] | undefined {
  const fold = Object.hasOwn(FOLD, op) ? FOLD[op] : undefined;
  if (!fold || inputs.length === 0) return undefined;
  if (Object.hasOwn(ARITY, op) && inputs.length !== ARITY[op]) return undefined;
  const tensors: (Tensor | undefined)[] = [];
  for (const input of inputs) {
    if (input && !input.constant) return undefined;
    tensors.push(input?.constant);
  }
  if (tensors[0] === undefined) return undefined;
  return fold(tensors, attributes);
}
