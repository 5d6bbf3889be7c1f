/** Arithmetic and comparison of Python's numbers, lists and texts; numbers may be sizes or what the data decide. */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { floorMod } from '../../../graph/elements.ts';
import type { Context } from '../run/context.ts';
import { add, Expr, type Int, multiply, SizeBound, subtract } from '../run/sizes.ts';
import { TensorRef } from '../run/tensor.ts';
import {
  Dict,
  Float,
  isInt,
  isNumber,
  itemsOf,
  kindOf,
  List,
  Named,
  type Py,
  refuse,
  Scalar,
  Tuple,
} from '../run/values.ts';

const MAX_TEXT = 100_000;

export type Prim = (c: Context, ...args: Py[]) => Py;

export function asInt(value: Py): Int {
  if (typeof value === 'boolean') return value ? 1 : 0;
  return isInt(value) ? value : refuse(`needs an int, got ${kindOf(value)}`);
}

export function asFloat(value: Py): number {
  if (value instanceof Float) return value.value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'number') return value;
  if (value instanceof Expr) throw new SizeBound(`computes a fraction of ${value.name}`);
  return refuse(`needs a known number, got ${kindOf(value)}`);
}

interface Arithmetic {
  readonly int?: (c: Context, a: Int, b: Int) => Int;
  readonly float: (a: number, b: number) => number;
  /** For numbers that only the run knows. */
  readonly op: string;
}

const ARITHMETIC: Readonly<Record<string, Arithmetic>> = {
  add: { int: (_, a, b) => add(a, b), float: (a, b) => a + b, op: 'Add' },
  sub: { int: (_, a, b) => subtract(a, b), float: (a, b) => a - b, op: 'Sub' },
  mul: { int: (_, a, b) => multiply(a, b), float: (a, b) => a * b, op: 'Mul' },
  div: { float: (a, b) => a / b, op: 'Div' },
  floordiv: { int: (c, a, b) => c.sizes.divide(a, b), float: (a, b) => Math.floor(a / b), op: '' },
  remainder: { int: (c, a, b) => c.sizes.remainder(a, b), float: floorMod, op: 'Mod' },
  max: { int: (c, a, b) => c.sizes.extreme('max', a, b), float: Math.max, op: 'Max' },
  min: { int: (c, a, b) => c.sizes.extreme('min', a, b), float: Math.min, op: 'Min' },
};

export function arithmetic(c: Context, name: string, a: Py, b: Py): Py {
  const rule = ARITHMETIC[name] ?? refuse(`${name} is not supported`);
  if (a instanceof Scalar || b instanceof Scalar) {
    const isFloat = [a, b].some(
      (each) => each instanceof Float || (each instanceof Scalar && each.type === 'float'),
    );
    if (rule.op === '' || (name === 'div' && !isFloat))
      return refuse(`${name} of a number that the data decide is not supported`);
    const dtype = isFloat ? 'float32' : 'int64';
    const made = c.one(
      rule.op,
      [c.number(a, dtype), c.number(b, dtype)],
      rule.op === 'Mod' && isFloat ? { fmod: 1 } : {},
    );
    return new Scalar(isFloat ? 'float' : 'int', made);
  }
  const isWhole = [a, b].every((each) => isInt(each) || typeof each === 'boolean');
  if (isWhole && rule.int) {
    const made = rule.int(c, asInt(a), asInt(b));
    if (typeof made === 'number' && !Number.isSafeInteger(made))
      return refuse(`${name} of an int beyond 2^53 is not supported`);
    return made;
  }
  return new Float(rule.float(asFloat(a), asFloat(b)));
}

export const binary =
  (name: string): Prim =>
  (c, a, b) => {
    if (name === 'add' && typeof a === 'string' && typeof b === 'string')
      return a.length + b.length <= MAX_TEXT ? a + b : refuse(`has a text of over ${MAX_TEXT} characters`);
    const [left, right] = [itemsOf(a), itemsOf(b ?? null)];
    if (name === 'add' && left && right)
      return a instanceof List ? c.list([...left, ...right]) : new Tuple([...left, ...right]);
    if (name === 'mul' && left && typeof b === 'number' && left.length * b < 10_000)
      return c.list(Array.from({ length: Math.max(0, b) }, () => left).flat());
    return arithmetic(c, name, a, b ?? null);
  };

/** Equality of everything but tensors. @throws SizeBound when it follows a free size */
export function isEqual(c: Context, a: Py, b: Py): boolean {
  const [left, right] = [itemsOf(a), itemsOf(b)];
  if (left && right) {
    if (left.length !== right.length) return false;
    // A known difference decides, whatever free sizes do.
    let bound: SizeBound | undefined;
    for (const [i, item] of left.entries())
      try {
        if (!isEqual(c, item, right[i] as Py)) return false;
      } catch (error) {
        if (!(error instanceof SizeBound)) throw error;
        bound = error;
      }
    if (bound) throw bound;
    return true;
  }
  if (a instanceof Named || b instanceof Named) return nameOf(a) === nameOf(b);
  if (isNumber(a) && isNumber(b)) {
    if (a instanceof Float || b instanceof Float) return asFloat(a) === asFloat(b);
    if (a instanceof Scalar || b instanceof Scalar) return refuse('compares a number that the data decide');
    return c.sizes.equal(asInt(a), asInt(b));
  }
  return a === b;
}

function nameOf(value: Py): unknown {
  return value instanceof Named ? value.name : value;
}

const ORDERED: Readonly<Record<string, { op: string; holds: (sign: number) => boolean }>> = {
  lt: { op: 'Less', holds: (sign) => sign < 0 },
  le: { op: 'LessOrEqual', holds: (sign) => sign <= 0 },
  gt: { op: 'Greater', holds: (sign) => sign > 0 },
  ge: { op: 'GreaterOrEqual', holds: (sign) => sign >= 0 },
};

export const compare =
  (name: 'lt' | 'le' | 'gt' | 'ge'): Prim =>
  (c, a, b) => {
    const { op, holds } = ORDERED[name] as { op: string; holds: (sign: number) => boolean };
    if (typeof a === 'string' && typeof b === 'string') return holds(a < b ? -1 : a > b ? 1 : 0);
    if (a instanceof Scalar || b instanceof Scalar) {
      const isFloat = [a, b].some(
        (each) => each instanceof Float || (each instanceof Scalar && each.type === 'float'),
      );
      const dtype = isFloat ? 'float32' : 'int64';
      return new Scalar('bool', c.one(op, [c.number(a, dtype), c.number(b ?? null, dtype)]));
    }
    if (a instanceof Float || b instanceof Float) return holds(Math.sign(asFloat(a) - asFloat(b ?? null)));
    const difference = subtract(asInt(a), asInt(b ?? null));
    const sign = c.sizes.sign(difference);
    if (sign !== undefined) return holds(sign);
    // N >= 1 holds although N may be more.
    const nearest = c.sizes.sign(add(difference, 1));
    if (nearest === 1 && (name === 'ge' || name === 'lt')) return name === 'ge';
    throw new SizeBound('the model compares sizes that are free');
  };

export const equal =
  (negated: boolean): Prim =>
  (c, a, b) => {
    if (a instanceof Scalar || b instanceof Scalar) {
      const types = [a, b].map((each) =>
        each instanceof Scalar ? each.type : each instanceof Float ? 'float' : 'int',
      );
      const dtype: DType = types.includes('float') ? 'float32' : 'int64';
      const made = c.one('Equal', [c.number(a, dtype), c.number(b ?? null, dtype)]);
      return new Scalar('bool', negated ? c.one('Not', [made]) : made);
    }
    return isEqual(c, a, b ?? null) !== negated;
  };

export function isSame(a: Py, b: Py): boolean {
  return (a ?? null) === (b ?? null);
}

export const logic =
  (op: 'And' | 'Or'): Prim =>
  (c, a, b) => {
    if (typeof a === 'boolean' && typeof b === 'boolean') return op === 'And' ? a && b : a || b;
    return new Scalar('bool', c.one(op, [c.number(a, 'bool'), c.number(b ?? null, 'bool')]));
  };

export const unary =
  (compute: (x: number) => number, isWhole = false): Prim =>
  (_, x) => {
    const made = compute(asFloat(x));
    return isWhole ? made : new Float(made);
  };

/** int(), float() and bool() of tensors and numbers. */
export const convert =
  (type: 'int' | 'float' | 'bool'): Prim =>
  (c, x) => {
    if (x instanceof TensorRef) return c.scalar(x, type);
    if (x instanceof Scalar) {
      const dtype = type === 'int' ? 'int64' : type === 'float' ? 'float32' : 'bool';
      return x.type === type ? x : new Scalar(type, c.cast(x.value, dtype));
    }
    if (type === 'bool') {
      if (x instanceof Expr) return c.sizes.compare(x, 0) !== 0;
      if (itemsOf(x) || x instanceof Dict || typeof x === 'string') return length(x) > 0;
      return asFloat(x) !== 0;
    }
    if (type === 'int')
      return x instanceof Float
        ? Math.trunc(x.value)
        : typeof x === 'string'
          ? Number.parseInt(x, 10)
          : asInt(x);
    return new Float(typeof x === 'string' ? Number(x) : asFloat(x));
  };

export function numberOrList(name: 'max' | 'min'): Prim {
  return (c, a, b) => {
    const items = itemsOf(a);
    if (!items) return arithmetic(c, name, a, b ?? null);
    if (items.length === 0) return refuse(`${name} of an empty list`);
    return items.reduce((one, other) => arithmetic(c, name, one, other));
  };
}

export function length(value: Py): number {
  if (value instanceof Dict) return value.items.size;
  if (typeof value === 'string') return value.length;
  return itemsOf(value)?.length ?? refuse(`has no length: ${kindOf(value)}`);
}
