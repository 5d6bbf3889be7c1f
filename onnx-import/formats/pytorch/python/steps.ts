/** What each operation of the bytecode does to the stack. */
import { getItem, keyOf } from '../aten/lists.ts';

import { Raised, textOf } from '../aten/python.ts';
import { callOperator } from '../aten/table.ts';
import { TensorRef } from '../run/tensor.ts';
import { Dict, itemsOf, List, Named, Obj, type Py, refuse, Tuple } from '../run/values.ts';
import { attribute, call, compare } from './calls.ts';
import { codeOf, isCode } from './classes.ts';
import { CodeValue, cellName, deref, makeFunction } from './closures.ts';
import {
  EMPTY,
  type Frame,
  Iteration,
  iterate,
  NO_NAMES,
  peek,
  pop,
  popMany,
  type Step,
  truth,
} from './frame.ts';
import { Slice, subscript } from './subscript.ts';

const COMPARISONS = ['lt', 'le', 'eq', 'ne', 'gt', 'ge', 'in', 'not in', 'is', 'is not'];

const push =
  (make: (frame: Frame, arg: number) => Py): Step =>
  (frame, arg) => {
    frame.stack.push(make(frame, arg));
    return undefined;
  };

const jumpIf =
  (wanted: (frame: Frame, value: Py) => boolean): Step =>
  (frame, _, target) =>
    wanted(frame, pop(frame)) ? target : undefined;

const jumpOrPop =
  (wanted: boolean): Step =>
  (frame, _, target) => {
    if (truth(frame.world.c, peek(frame, 1)) === wanted) return target;
    pop(frame);
    return undefined;
  };

const unpack: Step = (frame, arg) => {
  const items = iterate(frame, pop(frame)).items;
  if (items.length !== arg) return refuse(`takes ${items.length} values apart into ${arg}`);
  frame.stack.push(...items.toReversed());
  return undefined;
};

const forIter: Step = (frame, _, target) => {
  const top = peek(frame, 1);
  if (!(top instanceof Iteration)) return refuse('loops over what is no iterator');
  const item = top.items[top.at];
  if (item !== undefined) {
    top.at += 1;
    frame.stack.push(item);
    return undefined;
  }
  pop(frame);
  return target;
};

function callWithKeywords(frame: Frame, all: readonly Py[], names: readonly string[], callee: Py): Py {
  const count = all.length - names.length;
  return call(
    frame,
    callee,
    all.slice(0, count),
    new Map(names.map((name, i) => [name, all[count + i] as Py])),
  );
}

export const STEPS: Readonly<Record<string, Step>> = {
  NOP: () => undefined,
  POP_TOP: (frame) => void pop(frame),
  PUSH_NULL: push(() => EMPTY),
  ROT_TWO: (frame) => void frame.stack.push(...popMany(frame, 2).toReversed()),
  ROT_THREE: (frame) => {
    const [a, b, last] = popMany(frame, 3) as [Py, Py, Py];
    frame.stack.push(last, a, b);
    return undefined;
  },
  ROT_FOUR: (frame) => {
    const [a, b, x, last] = popMany(frame, 4) as [Py, Py, Py, Py];
    frame.stack.push(last, a, b, x);
    return undefined;
  },
  SWAP: (frame, arg) => {
    const { stack } = frame;
    const [a, b] = [peek(frame, 1), peek(frame, arg)];
    stack[stack.length - 1] = b;
    stack[stack.length - arg] = a;
    return undefined;
  },
  COPY: push((frame, arg) => peek(frame, arg)),
  DUP_TOP: push((frame) => peek(frame, 1)),
  DUP_TOP_TWO: (frame) => void frame.stack.push(peek(frame, 2), peek(frame, 1)),
  UNARY_POSITIVE: () => undefined,
  UNARY_NEGATIVE: push((frame) => callOperator(frame.world.c, 'neg', [pop(frame)], NO_NAMES)),
  UNARY_NOT: push((frame) => !truth(frame.world.c, pop(frame))),
  UNARY_INVERT: push((frame) => callOperator(frame.world.c, 'bitwise_not', [pop(frame)], NO_NAMES)),
  BINARY_SUBSCR: push((frame) => {
    const [of, key] = popMany(frame, 2) as [Py, Py];
    if (of instanceof TensorRef) return subscript(frame.world.c, of, key);
    const items = of instanceof Obj ? frame.world.items(of) : itemsOf(of);
    if (items && key instanceof Slice) {
      const [start, stop, by] = [key.start, key.stop, key.step];
      return callOperator(
        frame.world.c,
        'slice',
        [of instanceof Tuple ? of : frame.world.c.list(items), start, stop, by],
        NO_NAMES,
      );
    }
    if (of instanceof Obj && typeof key === 'string') return frame.world.attribute(of, key);
    return getItem(of instanceof Obj ? new Tuple(items ?? []) : of, key);
  }),
  STORE_SUBSCR: (frame) => {
    const [value, of, key] = popMany(frame, 3) as [Py, Py, Py];
    if (of instanceof TensorRef) subscript(frame.world.c, of, key, value);
    else callOperator(frame.world.c, '_set_item', [of, key, value], NO_NAMES);
    return undefined;
  },
  BUILD_SLICE: push((frame, arg) => {
    const [start, stop, by] = popMany(frame, arg) as [Py, Py, Py | undefined];
    return new Slice(start, stop, by ?? null);
  }),
  GET_ITER: push((frame) => iterate(frame, pop(frame))),
  FOR_ITER: forIter,
  SETUP_LOOP: (frame, _, target) => void frame.loops.push(target),
  POP_BLOCK: (frame) => void frame.loops.pop(),
  BREAK_LOOP: (frame) => {
    // A for loop leaves its iterator on the stack; a while loop has none.
    if (frame.stack.at(-1) instanceof Iteration) pop(frame);
    return frame.loops.pop() ?? refuse('breaks out of no loop');
  },
  CONTINUE_LOOP: (_, __, target) => target,
  JUMP_FORWARD: (_, __, target) => target,
  JUMP_ABSOLUTE: (_, __, target) => target,
  POP_JUMP_IF_FALSE: jumpIf(({ world }, value) => !truth(world.c, value)),
  POP_JUMP_IF_TRUE: jumpIf(({ world }, value) => truth(world.c, value)),
  POP_JUMP_IF_NONE: jumpIf((_, value) => value === null),
  POP_JUMP_IF_NOT_NONE: jumpIf((_, value) => value !== null),
  JUMP_IF_FALSE_OR_POP: jumpOrPop(false),
  JUMP_IF_TRUE_OR_POP: jumpOrPop(true),
  COMPARE_OP: push((frame, arg) => {
    const [a, b] = popMany(frame, 2) as [Py, Py];
    return compare(frame, COMPARISONS[arg] ?? 'unknown', a, b);
  }),
  IS_OP: push((frame, arg) => {
    const [a, b] = popMany(frame, 2) as [Py, Py];
    return compare(frame, arg === 1 ? 'is not' : 'is', a, b);
  }),
  CONTAINS_OP: push((frame, arg) => {
    const [a, b] = popMany(frame, 2) as [Py, Py];
    return compare(frame, arg === 1 ? 'not in' : 'in', a, b);
  }),
  LOAD_CONST: push((frame, arg) => {
    const value = frame.code.constants[arg];
    return value === undefined
      ? refuse('has no such constant')
      : isCode(value)
        ? new CodeValue(codeOf(value))
        : frame.world.value(value);
  }),
  LOAD_FAST: push((frame, arg) => {
    const name = frame.code.variables[arg] ?? '';
    const value = frame.locals.get(name);
    return value === undefined ? refuse(`variable ${name} is not set`) : value;
  }),
  STORE_FAST: (frame, arg) => void frame.locals.set(frame.code.variables[arg] ?? '', pop(frame)),
  DELETE_FAST: (frame, arg) => void frame.locals.delete(frame.code.variables[arg] ?? ''),
  LOAD_GLOBAL: (frame, arg) => {
    if (frame.code.isNew && (arg & 1) === 1) frame.stack.push(EMPTY);
    frame.stack.push(frame.global(frame.code.names[frame.code.isNew ? arg >> 1 : arg] ?? ''));
    return undefined;
  },
  LOAD_DEREF: push((frame, arg) => deref(frame, cellName(frame, arg))),
  STORE_DEREF: (frame, arg) => void frame.locals.set(cellName(frame, arg), pop(frame)),
  LOAD_CLOSURE: push(() => EMPTY),
  LOAD_ATTR: push((frame, arg) => attribute(frame, pop(frame), frame.code.names[arg] ?? '')),
  LOAD_METHOD: (frame, arg) => {
    const member = attribute(frame, pop(frame), frame.code.names[arg] ?? '');
    frame.stack.push(...(frame.code.isNew ? [EMPTY, member] : [member]));
    return undefined;
  },
  STORE_ATTR: (frame, arg) =>
    refuse(
      `keeps a state from one call to the next (it sets ${frame.code.names[arg]}), which cannot be served`,
    ),
  CALL_FUNCTION: push((frame, arg) => {
    const args = popMany(frame, arg);
    return call(frame, pop(frame), args, NO_NAMES);
  }),
  CALL_METHOD: push((frame, arg) => {
    const args = popMany(frame, arg);
    return call(frame, pop(frame), args, NO_NAMES);
  }),
  CALL_FUNCTION_KW: push((frame, arg) => {
    const names = (itemsOf(pop(frame)) ?? []).map(String);
    const args = popMany(frame, arg);
    return callWithKeywords(frame, args, names, pop(frame));
  }),
  KW_NAMES: (frame, arg) => {
    frame.keywords = (itemsOf(frame.world.value(frame.code.constants[arg] ?? null)) ?? []).map(String);
    return undefined;
  },
  CALL: push((frame, arg) => {
    const args = popMany(frame, arg);
    const callee = pop(frame);
    const under = pop(frame);
    const { keywords } = frame;
    frame.keywords = [];
    // A comprehension's function lies in the place of NULL, and its argument in that of the function.
    if (under !== EMPTY) return callWithKeywords(frame, [callee, ...args], keywords, under);
    return callWithKeywords(frame, args, keywords, callee);
  }),
  CALL_FUNCTION_EX: push((frame, arg) => {
    const named = arg & 1 ? pop(frame) : undefined;
    const args = iterate(frame, pop(frame)).items;
    const callee = pop(frame);
    if (frame.code.isNew) pop(frame);
    const keywords =
      named instanceof Dict
        ? new Map([...named.items].map(([name, value]) => [String(name), value] as const))
        : NO_NAMES;
    return call(frame, callee, args, keywords);
  }),
  MAKE_FUNCTION: makeFunction,
  RETURN_VALUE: () => undefined,
  UNPACK_SEQUENCE: unpack,
  BUILD_TUPLE: push((frame, arg) => new Tuple(popMany(frame, arg))),
  BUILD_LIST: push((frame, arg) => frame.world.c.list(popMany(frame, arg))),
  BUILD_LIST_UNPACK: push((frame, arg) =>
    frame.world.c.list(popMany(frame, arg).flatMap((each) => iterate(frame, each).items)),
  ),
  BUILD_TUPLE_UNPACK: push(
    (frame, arg) => new Tuple(popMany(frame, arg).flatMap((each) => iterate(frame, each).items)),
  ),
  LIST_TO_TUPLE: push((frame) => new Tuple(itemsOf(pop(frame)) ?? [])),
  LIST_APPEND: (frame, arg) => {
    const value = pop(frame);
    const list = peek(frame, arg);
    if (!(list instanceof List)) return refuse('appends to what is no list');
    list.items.push(value);
    return undefined;
  },
  LIST_EXTEND: (frame, arg) => {
    const { items } = iterate(frame, pop(frame));
    const list = peek(frame, arg);
    if (!(list instanceof List)) return refuse('extends what is no list');
    list.items.push(...items);
    return undefined;
  },
  BUILD_MAP: push((frame, arg) =>
    dictOf(
      popMany(frame, 2 * arg).reduce<[Py, Py][]>((pairs, value, i) => {
        if (i % 2 === 0) pairs.push([value, null]);
        else (pairs.at(-1) as [Py, Py])[1] = value;
        return pairs;
      }, []),
    ),
  ),
  BUILD_CONST_KEY_MAP: push((frame, arg) => {
    const keys = itemsOf(pop(frame)) ?? [];
    const values = popMany(frame, arg);
    return dictOf(keys.map((key, i) => [key, values[i] as Py]));
  }),
  DICT_UPDATE: (frame, arg) => {
    const more = pop(frame);
    const dict = peek(frame, arg);
    if (!(dict instanceof Dict) || !(more instanceof Dict)) return refuse('updates what is no dict');
    for (const [key, value] of more.items) dict.items.set(key, value);
    return undefined;
  },
  FORMAT_VALUE: push((frame, arg) => {
    if (arg & 4) pop(frame);
    return textOf(pop(frame));
  }),
  BUILD_STRING: push((frame, arg) => popMany(frame, arg).map(String).join('')),
  LOAD_ASSERTION_ERROR: push(() => new Named('AssertionError')),
  RAISE_VARARGS: (frame, arg) => {
    const [error] = popMany(frame, arg);
    throw new Raised(error instanceof Named ? error.name : 'an exception');
  },
};

function dictOf(pairs: readonly (readonly [Py, Py])[]): Dict {
  const dict = new Dict();
  for (const [key, value] of pairs)
    dict.items.set(keyOf(key) ?? refuse('has a key that is no text or number'), value);
  return dict;
}
