/**
 * What TorchScript computes outside of tensors: numbers, lists, texts, comparisons, and the facts of a tensor.
 */
import type { DType } from '../../../../lib/contract/tensor.ts';
import type { Context } from '../run/context.ts';
import { Expr, product } from '../run/sizes.ts';
import { TensorRef } from '../run/tensor.ts';
import { Dict, Float, isInt, itemsOf, kindOf, Named, type Py, refuse, Scalar, Tuple } from '../run/values.ts';
import { bools, getItem, keyOf, place, setItem, sliceList, writable } from './lists.ts';
import {
  arithmetic,
  asFloat,
  asInt,
  binary,
  compare,
  convert,
  equal,
  isEqual,
  isSame,
  length,
  logic,
  numberOrList,
  type Prim,
  unary,
} from './numbers.ts';
import { DTYPES } from './schema.ts';

/** The model raises an exception on this path. */
export class Raised extends Error {}

export function format(template: Py, args: readonly Py[]): string {
  const rest = [...args];
  return textOf(template).replaceAll('{}', () => textOf(rest.shift()));
}

export function textOf(value: Py | undefined): string {
  if (value === null || value === undefined) return 'None';
  if (value instanceof Float) return String(value.value);
  if (value instanceof Expr) return value.name;
  const items = itemsOf(value);
  if (items) return `[${items.map(textOf).join(', ')}]`;
  return typeof value === 'object' ? kindOf(value) : String(value);
}

const CODES = new Map(
  Object.entries(DTYPES).flatMap(([code, dtype]) =>
    code === '5' || code === '15' ? [] : [[dtype, Number(code)] as const],
  ),
);

export function dtypeCode(dtype: DType): number {
  return CODES.get(dtype) ?? refuse(`${dtype} has no number in torch`);
}

const tensorFact =
  (fact: (c: Context, x: TensorRef) => Py): Prim =>
  (c, x) =>
    x instanceof TensorRef ? fact(c, x) : refuse(`needs a tensor, got ${kindOf(x)}`);

const size: Prim = (c, x, dim) => {
  if (!(x instanceof TensorRef)) return refuse(`needs a tensor, got ${kindOf(x)}`);
  if (dim === undefined || dim === null) return c.list(c.shapeOf(x.value));
  return c.sizeOf(x.value, Number(asInt(dim)));
};

const isFloating = tensorFact((_, x) => x.dtype === 'float32' || x.dtype === 'float64');

function tolist(c: Context, value: Py): Py {
  if (
    value instanceof TensorRef &&
    value.value.elements?.every((each) => each !== undefined) &&
    value.shape.length === 1
  )
    return c.list(value.value.elements.map((each) => c.sizes.of(each)));
  return refuse('makes a list of what the data decide');
}

/** Functions that take no tensors, or ask a tensor for a fact. The names are those of `torch.` and `ops.prim.` */
export const PRIMITIVES: Readonly<Record<string, Prim>> = {
  ...Object.fromEntries(
    ['add', 'sub', 'mul', 'div', 'floordiv', 'remainder'].map((name) => [name, binary(name)]),
  ),
  fmod: (_, a, b) => new Float(asFloat(a) % asFloat(b ?? null)),
  floor_divide: binary('floordiv'),
  pow: (_, a, b) => {
    const made = asFloat(a) ** asFloat(b ?? null);
    return isInt(a) && isInt(b) && Number.isInteger(made) ? made : new Float(made);
  },
  neg: (c, a) => (a instanceof Float ? new Float(-a.value) : arithmetic(c, 'mul', a, -1)),
  abs: (_, a) => (a instanceof Float ? new Float(Math.abs(a.value)) : Math.abs(asFloat(a))),
  max: numberOrList('max'),
  min: numberOrList('min'),
  sum: (c, a) => (itemsOf(a) ?? []).reduce((one, other) => arithmetic(c, 'add', one, other), 0),
  lt: compare('lt'),
  le: compare('le'),
  gt: compare('gt'),
  ge: compare('ge'),
  eq: equal(false),
  ne: equal(true),
  __is__: (_, a, b) => isSame(a, b ?? null),
  __isnot__: (_, a, b) => !isSame(a, b ?? null),
  __not__: (c, a) =>
    a instanceof Scalar ? new Scalar('bool', c.one('Not', [a.value])) : !convert('bool')(c, a),
  __and__: logic('And'),
  __or__: logic('Or'),
  floor: unary(Math.floor, true),
  ceil: unary(Math.ceil, true),
  sqrt: unary(Math.sqrt),
  log: unary(Math.log),
  exp: unary(Math.exp),
  round: unary((x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x))),
  Int: convert('int'),
  Float: convert('float'),
  Bool: convert('bool'),
  IntImplicit: convert('int'),
  FloatImplicit: convert('float'),
  ScalarImplicit: (c, x) =>
    x instanceof TensorRef ? c.scalar(x, x.dtype.startsWith('float') ? 'float' : 'int') : x,
  item: (c, x) =>
    x instanceof TensorRef
      ? c.scalar(x, x.dtype.startsWith('float') ? 'float' : x.dtype === 'bool' ? 'bool' : 'int')
      : x,
  NumToTensor: (c, x) =>
    isInt(x) ? c.known(x) : c.tensor(c.number(x, x instanceof Float ? 'float32' : 'int64')),
  len: (c, x) => (x instanceof TensorRef ? c.sizeOf(x.value, 0) : length(x)),
  size,
  sym_size: size,
  shape: size,
  dim: tensorFact((_, x) => x.shape.length),
  ndim: tensorFact((_, x) => x.shape.length),
  numel: tensorFact((c, x) => product(c.shapeOf(x.value))),
  dtype: tensorFact((_, x) => dtypeCode(x.dtype)),
  device: (_, ...args) =>
    args[0] instanceof TensorRef ? new Named('cpu') : new Named(textOf(args[0] ?? 'cpu')),
  layout: () => 0,
  is_floating_point: isFloating,
  is_complex: () => false,
  is_cuda: () => false,
  is_mkldnn: () => false,
  is_nested: () => false,
  is_quantized: (_, x) => x instanceof TensorRef && x.quantized !== undefined,
  is_sparse: () => false,
  is_contiguous: () => refuse('asks whether a tensor is contiguous, which is not modelled'),
  requires_grad: () => false,
  is_grad_enabled: () => false,
  is_autocast_enabled: () => false,
  is_autocast_cpu_enabled: () => false,
  is_scripting: () => true,
  is_tracing: () => false,
  set_grad_enabled: () => null,
  manual_seed: () => null,
  format: (_, template, ...args) => format(template, args),
  str: (_, x) => textOf(x),
  warn: () => null,
  print: () => null,
  RaiseException: (_, message) => {
    throw new Raised(textOf(message));
  },
  append: (c, list, value) => {
    writable(c, list).push(value ?? null);
    return list;
  },
  extend: (c, list, more) => {
    writable(c, list).push(...(itemsOf(more ?? null) ?? []));
    return null;
  },
  insert: (c, list, index, value) => {
    writable(c, list).splice(asFloat(index ?? null), 0, value ?? null);
    return null;
  },
  pop: (c, list, index) => {
    const items = writable(c, list);
    return items.splice(place(items, index ?? -1), 1)[0] ?? null;
  },
  reverse: (c, list) => {
    writable(c, list).reverse();
    return null;
  },
  clear: (c, list) => {
    writable(c, list).length = 0;
    return null;
  },
  list: (c, x) =>
    c.list(typeof x === 'string' ? Array.from(x) : (itemsOf(x) ?? refuse(`is no list: ${kindOf(x)}`))),
  dict: () => new Dict(),
  type: (_, x) => (x instanceof Named ? x.name : refuse('asks for the type of what is no device')),
  all: (_, x) => bools(x).every((each) => each),
  any: (_, x) => bools(x).some((each) => each),
  copy: (c, x) => c.list(itemsOf(x) ?? refuse(`is no list: ${kindOf(x)}`)),
  tolist,
  slice: (c, list, start, end, step) => sliceList(c, list, start ?? null, end ?? null, step ?? null),
  __getitem__: (_, list, index) => getItem(list, index ?? null),
  _set_item: (c, list, index, value) => setItem(c, list, index ?? null, value ?? null),
  __contains__: (c, a, b) => {
    if (a instanceof Dict) return a.items.has(keyOf(b ?? null) as string);
    return (itemsOf(a) ?? []).some((item) => isEqual(c, item, b ?? null));
  },
  keys: (c, x) => c.list(x instanceof Dict ? [...x.items.keys()] : refuse(`is no dict: ${kindOf(x)}`)),
  values: (c, x) => c.list(x instanceof Dict ? [...x.items.values()] : refuse(`is no dict: ${kindOf(x)}`)),
  items: (c, x) =>
    c.list(
      x instanceof Dict ? [...x.items].map((pair) => new Tuple(pair)) : refuse(`is no dict: ${kindOf(x)}`),
    ),
  get: (_, x, key, fallback) => {
    const found = x instanceof Dict ? x.items.get(keyOf(key ?? null) as string) : undefined;
    return found === undefined ? (fallback ?? null) : found;
  },
  list_with_default: (_, x) => x,
  __range_length: (_, start, end, step) => {
    const [from, to, by] = [start, end ?? null, step ?? null].map(asFloat) as [number, number, number];
    return Math.max(0, Math.ceil((to - from) / by));
  },
  __derive_index: (c, i, start, step) => arithmetic(c, 'add', arithmetic(c, 'mul', i, step ?? 1), start ?? 0),
  unchecked_unwrap_optional: (_, x) => x,
  _unwrap_optional: (_, x) => x,
  Uninitialized: () => null,
  broadcast_tensors_shape: () => null,
};

/** Facts that are primitives although their argument is a tensor. */
export const ASKS_TENSORS = new Set(
  'Int Float Bool IntImplicit FloatImplicit ScalarImplicit item len size sym_size shape dim ndim numel dtype device layout is_floating_point is_complex is_cuda is_mkldnn is_nested is_quantized is_sparse is_contiguous requires_grad __is__ __isnot__ tolist append extend insert _set_item print warn format __not__ str list_with_default unchecked_unwrap_optional _unwrap_optional get'.split(
    ' ',
  ),
);
