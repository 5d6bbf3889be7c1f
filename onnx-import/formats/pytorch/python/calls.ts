/** Operators, attributes and calls of Python code: built-in functions, those of torch, methods of lists. */
import { keyOf } from '../aten/lists.ts';
import { asFloat, convert, isEqual } from '../aten/numbers.ts';
import { textOf } from '../aten/python.ts';
import { callEntry } from '../aten/schema.ts';
import { callOperator } from '../aten/table.ts';
import { SizeBound } from '../run/sizes.ts';
import { TensorRef } from '../run/tensor.ts';
import {
  Callable,
  Dict,
  Float,
  isInt,
  itemsOf,
  kindOf,
  List,
  Named,
  Obj,
  type Py,
  refuse,
  Tuple,
} from '../run/values.ts';
import { type Frame, iterate, NO_NAMES, truth } from './frame.ts';
import { FUNCTIONS } from './functional.ts';
import { tensorMember } from './tensor-members.ts';

export function binary({ world: { c } }: Frame, op: string, a: Py, b: Py): Py {
  if (op === 'remainder' && typeof a === 'string') return a;
  return callOperator(c, op, [a, b], NO_NAMES);
}

export function inPlace(frame: Frame, op: string, a: Py, b: Py): Py {
  const { c } = frame.world;
  if (a instanceof TensorRef && op !== 'matmul')
    return callOperator(c, op === 'floordiv' ? 'floor_divide_' : `${op}_`, [a, b], NO_NAMES);
  if (a instanceof List && op === 'add') {
    callOperator(c, 'extend', [a, b], NO_NAMES);
    return a;
  }
  return binary(frame, op, a, b);
}

export function compare({ world: { c } }: Frame, name: string, a: Py, b: Py): Py {
  if (name === 'is' || name === 'is not') return isIdentical(a, b) === (name === 'is');
  if (name === 'in' || name === 'not in') {
    const found =
      b instanceof Dict
        ? b.items.has(keyOf(a) as string)
        : (itemsOf(b) ?? refuse('looks into what is no list')).some((item) => isEqual(c, item, a));
    return found === (name === 'in');
  }
  if (a instanceof TensorRef || b instanceof TensorRef) {
    if (a === null || b === null) return name === 'ne';
    return callOperator(c, name, [a, b], NO_NAMES);
  }
  return callOperator(c, name, [a, b], NO_NAMES);
}

function isIdentical(a: Py, b: Py): boolean {
  return a === b || (a instanceof Named && b instanceof Named && a.name === b.name);
}

/** Calls anything that Python code may call. */
export function call(frame: Frame, callee: Py, args: readonly Py[], named: ReadonlyMap<string, Py>): Py {
  if (callee instanceof Callable) return callee.call(args, named);
  if (callee instanceof Obj) return frame.world.call(callee, args, named);
  if (callee instanceof Named) return callNamed(frame, callee.name, args, named);
  return refuse(`calls ${kindOf(callee)}`);
}

const TORCH = /^torch\.(nn\.functional\.|special\.|linalg\.|_C\._nn\.)?(\w+)$/;

/** Sizes may be arguments of their own. */
const SIZED = new Set(['zeros', 'ones', 'empty', 'rand', 'randn']);

function callNamed(frame: Frame, path: string, args: readonly Py[], named: ReadonlyMap<string, Py>): Py {
  const { c } = frame.world;
  const builtin = BUILTINS[path.replace(/^(builtins|__builtin__)\./, '')];
  if (builtin) return builtin(frame, args);
  if (path.startsWith('math.') && args.length === 1) {
    const name = path.slice('math.'.length);
    const compute = Object.hasOwn(MATH, name) ? MATH[name] : undefined;
    if (!compute) return refuse(`${path} is not supported`);
    const made = compute(asFloat(args[0] as Py));
    return name === 'floor' || name === 'ceil' ? made : new Float(made);
  }
  const [, space, name] = TORCH.exec(path) ?? [];
  if (name === undefined)
    return refuse(
      `calls ${path}, whose code is not in the file; export the model with torch.jit.trace or torch.jit.script`,
    );
  if (name === 'Size' || name === 'device')
    return name === 'Size' ? new Tuple(itemsOf(args[0]) ?? []) : new Named('cpu');
  const own = space === 'nn.functional.' ? FUNCTIONS.get(name) : undefined;
  if (own) {
    const result = callEntry(c, own, args, named);
    const isValue =
      typeof result === 'object' && result !== null && 'dtype' in result && !(result instanceof TensorRef);
    return isValue ? c.tensor(result) : result;
  }
  const prefix = space === 'linalg.' ? 'linalg_' : '';
  if (SIZED.has(name) && !itemsOf(args[0])) return callOperator(c, name, [c.list(args)], named);
  if (name === 'einsum' && !itemsOf(args[1]))
    return callOperator(c, name, [args[0] as Py, c.list(args.slice(1))], named);
  return callOperator(c, `${prefix}${name}`, args, named);
}

const MATH: Readonly<Record<string, (x: number) => number>> = {
  sqrt: Math.sqrt,
  log: Math.log,
  exp: Math.exp,
  floor: Math.floor,
  ceil: Math.ceil,
  sin: Math.sin,
  cos: Math.cos,
  tanh: Math.tanh,
};

function numbers(args: readonly Py[]): number[] {
  return args.map((arg) => {
    if (typeof arg === 'number') return arg;
    if (isInt(arg)) throw new SizeBound('loops over a free size');
    return refuse(`has a loop whose count is ${kindOf(arg)}; export the model with torch.jit.script`);
  });
}

type Builtin = (frame: Frame, args: readonly Py[]) => Py;

const BUILTINS: Readonly<Record<string, Builtin | undefined>> = {
  range: ({ world: { c } }, args) => {
    const all = numbers(args);
    const [from, to, by] =
      all.length === 1 ? [0, all[0] as number, 1] : [all[0] as number, all[1] as number, all[2] ?? 1];
    const count = Math.max(0, Math.ceil((to - from) / by));
    if (!(count <= 100_000)) return refuse(`loops ${count} times`);
    return c.list(Array.from({ length: count }, (_, i) => from + i * by));
  },
  len: (frame, [x]) => {
    if (x instanceof Obj) return frame.world.items(x)?.length ?? refuse('has no length');
    return callOperator(frame.world.c, 'len', [x ?? null], NO_NAMES);
  },
  int: ({ world: { c } }, [x]) => convert('int')(c, x ?? 0),
  float: ({ world: { c } }, [x]) => convert('float')(c, x ?? 0),
  bool: ({ world: { c } }, [x]) => truth(c, x ?? null),
  str: (_, [x]) => textOf(x),
  print: () => null,
  abs: ({ world: { c } }, args) => callOperator(c, 'abs', args, NO_NAMES),
  max: ({ world: { c } }, args) => callOperator(c, 'max', args, NO_NAMES),
  min: ({ world: { c } }, args) => callOperator(c, 'min', args, NO_NAMES),
  sum: (frame, [list, start]) =>
    iterate(frame, list ?? null).items.reduce((a, b) => binary(frame, 'add', a, b), start ?? 0),
  list: (frame, [x]) => frame.world.c.list(x === undefined ? [] : iterate(frame, x).items),
  tuple: (frame, [x]) => new Tuple(x === undefined ? [] : iterate(frame, x).items),
  reversed: (frame, [x]) => frame.world.c.list(iterate(frame, x ?? null).items.toReversed()),
  enumerate: (frame, [x]) =>
    frame.world.c.list(iterate(frame, x ?? null).items.map((item, i) => new Tuple([i, item]))),
  zip: (frame, args) => {
    const all = args.map((arg) => iterate(frame, arg).items);
    const length = Math.min(...all.map((items) => items.length));
    return frame.world.c.list(
      Array.from({ length }, (_, i) => new Tuple(all.map((items) => items[i] as Py))),
    );
  },
  getattr: (frame, [of, name, fallback]) => {
    if (typeof name !== 'string') return refuse('getattr without a name');
    if (fallback !== undefined && of instanceof Obj && !hasAttribute(frame, of, name)) return fallback;
    return attribute(frame, of ?? null, name);
  },
  hasattr: (frame, [of, name]) =>
    of instanceof Obj && typeof name === 'string' && hasAttribute(frame, of, name),
  isinstance: (_, [x, type]) => {
    const names = (itemsOf(type) ?? [type ?? null]).map((each) =>
      each instanceof Named ? each.name : refuse('asks for an unknown class'),
    );
    return names.some((name) => isInstance(x ?? null, name));
  },
};

function isInstance(value: Py, name: string): boolean {
  const type = name.replace(/^(builtins|__builtin__)\./, '');
  if (type === 'torch.Tensor') return value instanceof TensorRef;
  if (type === 'tuple') return value instanceof Tuple;
  if (type === 'list') return value instanceof List;
  if (type === 'int') return isInt(value);
  if (type === 'float') return value instanceof Float;
  if (type === 'str') return typeof value === 'string';
  if (value instanceof Obj && type.startsWith('torch.nn.'))
    return value.type === type || value.type.split('.').at(-1) === type.split('.').at(-1);
  return refuse(`asks whether a value is of ${name}`);
}

function hasAttribute(frame: Frame, of: Obj, name: string): boolean {
  try {
    attribute(frame, of, name);
    return true;
  } catch {
    return false;
  }
}

const DTYPES: Readonly<Record<string, number>> = {
  uint8: 0,
  int8: 1,
  int16: 2,
  short: 2,
  int32: 3,
  int: 3,
  int64: 4,
  long: 4,
  float16: 5,
  half: 5,
  float32: 6,
  float: 6,
  float64: 7,
  double: 7,
  bool: 11,
  bfloat16: 15,
};

/** A name below a module of Python, such as torch.float32 or math.pi. */
export function namedMember(path: string): Py {
  const dtype = /^torch\.(\w+)$/.exec(path)?.[1];
  if (dtype !== undefined && Object.hasOwn(DTYPES, dtype)) return DTYPES[dtype] as number;
  if (path === 'math.pi') return new Float(Math.PI);
  if (path === 'math.inf' || path === 'torch.inf') return new Float(Infinity);
  return new Named(path);
}

export function attribute(frame: Frame, of: Py, name: string): Py {
  const { c } = frame.world;
  if (of instanceof TensorRef) return tensorMember(c, of, name);
  if (of instanceof Obj) return frame.world.attribute(of, name);
  if (of instanceof Named) return namedMember(`${of.name}.${name}`);
  if (of instanceof Tuple && (name === 'values' || name === 'indices'))
    return of.items[name === 'values' ? 0 : 1] ?? null;
  if (of instanceof List || of instanceof Dict || of instanceof Tuple || typeof of === 'string')
    return new Callable(name, (args, named) => callMember(frame, of, name, args, named));
  return refuse(`${kindOf(of)} has no attribute ${name}`);
}

function callMember(
  frame: Frame,
  of: Py,
  name: string,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): Py {
  if (typeof of === 'string') return name === 'format' ? of : refuse(`a text's ${name} is not supported`);
  const known = [
    'append',
    'extend',
    'insert',
    'pop',
    'reverse',
    'clear',
    'copy',
    'keys',
    'values',
    'items',
    'get',
    'numel',
  ];
  if (!known.includes(name)) return refuse(`${kindOf(of)} has no ${name}`);
  if (name === 'numel') return (itemsOf(of) ?? []).reduce((a, b) => binary(frame, 'mul', a, b), 1);
  const made = callOperator(frame.world.c, name, [of, ...args], named);
  return name === 'append' ? null : made;
}
