/** All operators, and the call of one: in place, on whole numbers that stay known, or as a rule adds nodes. */
import type { Context } from '../run/context.ts';
import { TensorRef } from '../run/tensor.ts';
import { isInt, itemsOf, type Py, refuse } from '../run/values.ts';
import { ACTIVATIONS } from './activations.ts';
import { CONVOLUTION } from './convolution.ts';
import { CREATION } from './creation.ts';
import { ELEMENTWISE } from './elementwise.ts';
import { INDEXING } from './indexing.ts';
import { LINEAR } from './linear.ts';
import { LOGIC } from './logic.ts';
import { MOVES } from './moves.ts';
import { NORMALIZATION } from './normalization.ts';
import { arithmetic } from './numbers.ts';
import { POOLING } from './pooling.ts';
import { ASKS_TENSORS, PRIMITIVES } from './python.ts';
import { callQuantized, QUANTIZED } from './quantized.ts';
import { RECURRENT } from './recurrent.ts';
import { REDUCTIONS } from './reduction.ts';
import { RESIZE } from './resize.ts';
import { callEntry, isValue, operators, type Result } from './schema.ts';
import { expand } from './shaping.ts';
import { STRIDED } from './strided.ts';
import { kind } from './types.ts';
import { upgrade } from './upgrade.ts';
import { VIEWS } from './views.ts';

export const OPERATORS = operators(
  ELEMENTWISE,
  LOGIC,
  ACTIVATIONS,
  VIEWS,
  STRIDED,
  MOVES,
  INDEXING,
  REDUCTIONS,
  LINEAR,
  CONVOLUTION,
  POOLING,
  RESIZE,
  NORMALIZATION,
  RECURRENT,
  CREATION,
  QUANTIZED,
);

/** For the list of what is supported. */
export const OPERATOR_NAMES: readonly string[] = [...OPERATORS.keys()].filter(
  (name) => !name.startsWith('__'),
);

/** Traces compute sizes as tensors of rank 0; these results stay known. */
const OF_SIZES: Readonly<Record<string, string>> = {
  add: 'add',
  sub: 'sub',
  mul: 'mul',
  floor_divide: 'floordiv',
  floordiv: 'floordiv',
  remainder: 'remainder',
  maximum: 'max',
  minimum: 'min',
};

export function isOperator(name: string): boolean {
  return (
    OPERATORS.has(name) ||
    Object.hasOwn(PRIMITIVES, name) ||
    (/^[a-z].*[^_]_$/.test(name) && OPERATORS.has(name.slice(0, -1)))
  );
}

/** @throws bad_model when the operator or its arguments are not supported */
export function callOperator(
  c: Context,
  name: string,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): Py {
  const call = upgrade(c.archiveVersion, name, args, named);
  const plain = () => callPlain(c, name, call.args, call.named);
  return callQuantized(c, name, [...args, ...named.values()], plain) ?? plain();
}

function callPlain(c: Context, name: string, args: readonly Py[], named: ReadonlyMap<string, Py>): Py {
  const known = ofSizes(c, name, args, named);
  if (known) return known;
  const hasTensor = args.some(
    (arg) => arg instanceof TensorRef || (!ASKS_TENSORS.has(name) && hasTensors(arg)),
  );
  const prim = Object.hasOwn(PRIMITIVES, name) ? PRIMITIVES[name] : undefined;
  const isList = itemsOf(args[0]) !== undefined && LISTS.has(name);
  if (prim && (!hasTensor || ASKS_TENSORS.has(name) || isList)) return prim(c, ...args, ...named.values());
  const own = OPERATORS.get(name);
  if (own) return wrapped(c, callEntry(c, own, args, named));
  const base = name.endsWith('_') ? OPERATORS.get(name.slice(0, -1)) : undefined;
  if (base) return inPlace(c, name, wrapped(c, callEntry(c, base, args, named)), args[0]);
  return refuse('is not supported');
}

/** Functions of lists, which may hold tensors. */
const LISTS = new Set(
  'add mul __getitem__ slice pop copy list reverse clear __contains__ keys values items len eq ne'.split(' '),
);

function hasTensors(value: Py): boolean {
  return itemsOf(value)?.some((item) => item instanceof TensorRef) ?? false;
}

function wrapped(c: Context, result: Result): Py {
  return isValue(result) ? c.tensor(result) : result;
}

function ofSizes(
  c: Context,
  name: string,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): Py | undefined {
  const isTruncated =
    name === 'div' && (named.get('rounding_mode') === 'trunc' || named.get('rounding_mode') === 'floor');
  const rule = isTruncated ? 'floordiv' : Object.hasOwn(OF_SIZES, name) ? OF_SIZES[name] : undefined;
  const [a, b, alpha] = args;
  if (rule === undefined || (named.size > 0 && !isTruncated) || (alpha !== undefined && alpha !== 1))
    return undefined;
  if (a === undefined || b === undefined || !args.some((arg) => arg instanceof TensorRef)) return undefined;
  const [one, other] = [a, b].map((arg) =>
    arg instanceof TensorRef ? (arg.known ?? constantOf(arg)) : isInt(arg) ? arg : undefined,
  );
  if (one === undefined || other === undefined) return undefined;
  if (isTruncated && (c.sizes.sign(one) ?? 1) < 0) return undefined;
  const made = arithmetic(c, rule, one, other);
  return isInt(made) ? c.known(made) : undefined;
}

function constantOf({ value }: TensorRef): number | undefined {
  const { constant } = value;
  if (!constant || constant.shape.length > 0 || constant.dtype !== 'int64') return undefined;
  return Number(constant.data[0]);
}

/** Writes the result to the first argument, with its type and shape. */
function inPlace(c: Context, name: string, result: Py, target: Py | undefined): Py {
  if (!(target instanceof TensorRef) || !(result instanceof TensorRef))
    return refuse(`${name} needs a tensor`);
  const { dtype } = target;
  if (kind(result.dtype) > kind(dtype)) refuse(`writes ${result.dtype} in place to ${dtype}`);
  target.assign(expand(c, c.cast(result.value, dtype), c.shapeOf(target.value)), name);
  return target;
}
