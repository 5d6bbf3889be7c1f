/** Evaluates the expressions of a TorchScript archive on symbolic values. */
import type { Problems } from '../../problems.ts';
import { getItem, keyOf } from '../aten/lists.ts';
import { callNoted } from '../aten/noted.ts';
import { convert } from '../aten/numbers.ts';
import { callOperator } from '../aten/table.ts';
import type { Context } from '../run/context.ts';
import {
  Callable,
  Dict,
  Float,
  kindOf,
  Named,
  Obj,
  type Py,
  refuse,
  Scalar,
  Tuple,
  Unset,
} from '../run/values.ts';
import type { Argument, ClassDefinition, Expression, FunctionDefinition } from './ast.ts';
import { Failed, type Frame, type Library, Stopped } from './library.ts';

export const NO_NAMES: ReadonlyMap<string, Py> = new Map();

const OPERATORS: Readonly<Record<string, string>> = {
  '+': 'add',
  '-': 'sub',
  '*': 'mul',
  '/': 'div',
  '//': 'floordiv',
  '%': 'remainder',
  '**': 'pow',
  '@': 'matmul',
  '<': 'lt',
  '<=': 'le',
  '>': 'gt',
  '>=': 'ge',
  '==': 'eq',
  '!=': 'ne',
  '&': '__and__',
  '|': '__or__',
  is: '__is__',
  'is not': '__isnot__',
  'unary -': 'neg',
  'unary not': '__not__',
  'unary ~': 'bitwise_not',
};

/** Calls a function of the archive. */
export type RunFunction = (
  definition: FunctionDefinition,
  where: string,
  args: readonly (Py | undefined)[],
  named: ReadonlyMap<string, Py>,
) => Py;

export class Evaluator {
  readonly #c: Context;
  readonly #library: Library;
  readonly #problems: Problems;
  readonly #run: RunFunction;

  constructor(c: Context, library: Library, problems: Problems, run: RunFunction) {
    this.#c = c;
    this.#library = library;
    this.#problems = problems;
    this.#run = run;
  }

  /** A bool, or a scalar that the data decide. */
  truth(expression: Expression, frame: Frame): boolean | Scalar {
    const value = this.evaluate(expression, frame);
    if (value instanceof Failed) throw new Stopped();
    if (typeof value === 'boolean') return value;
    const made = convert('bool')(this.#c, value);
    return typeof made === 'boolean' || made instanceof Scalar
      ? made
      : refuse(`${kindOf(value)} decides an if`);
  }

  evaluate(expression: Expression, frame: Frame): Py {
    switch (expression.kind) {
      case 'constant':
        return expression.value;
      case 'float':
        return new Float(expression.value);
      case 'name':
        return this.#name(expression.name, frame);
      case 'attribute':
        return this.#attribute(expression, frame);
      case 'list':
        return this.#c.list(expression.items.map((item) => this.evaluate(item, frame)));
      case 'tuple':
        return new Tuple(expression.items.map((item) => this.evaluate(item, frame)));
      case 'dict': {
        const dict = new Dict();
        for (const [key, value] of expression.items)
          dict.items.set(
            keyOf(this.evaluate(key, frame)) ?? refuse('has a key that is no text or number'),
            this.evaluate(value, frame),
          );
        return dict;
      }
      case 'subscript':
        return this.#subscript(expression, frame);
      case 'choice': {
        const test = this.truth(expression.test, frame);
        if (typeof test !== 'boolean') return refuse('has a conditional expression that the data decide');
        return this.evaluate(test ? expression.yes : expression.no, frame);
      }
      case 'operator':
        return this.#operator(expression.op, expression.operands, frame);
      case 'call':
        return this.#call(expression, frame);
    }
  }

  #name(name: string, frame: Frame): Py {
    const value = frame.variables.get(name);
    if (value !== undefined) return value;
    if (name === 'inf' || name === 'infj') return new Float(Infinity);
    return name === 'nan' ? new Float(Number.NaN) : new Named(name);
  }

  #subscript({ of, index }: Extract<Expression, { kind: 'subscript' }>, frame: Frame): Py {
    const value = this.evaluate(of, frame);
    if (value instanceof Failed || value instanceof Named) return value;
    return getItem(value, this.evaluate(index, frame));
  }

  #operator(op: string, operands: readonly Expression[], frame: Frame): Py {
    if (op === 'and' || op === 'or') {
      const first = this.truth(operands[0] as Expression, frame);
      if (typeof first !== 'boolean') return refuse(`"${op}" of what the data decide is not supported`);
      return first === (op === 'and') ? this.evaluate(operands[1] as Expression, frame) : first;
    }
    const name = Object.hasOwn(OPERATORS, op)
      ? (OPERATORS[op] as string)
      : refuse(`"${op}" is not supported`);
    return this.#operate(
      name,
      operands.map((operand) => this.evaluate(operand, frame)),
      NO_NAMES,
      frame,
    );
  }

  /** `torch.add` as text, unless the path begins at a variable. */
  #path(expression: Expression, frame: Frame): string | undefined {
    if (expression.kind === 'name') return frame.variables.has(expression.name) ? undefined : expression.name;
    if (expression.kind !== 'attribute') return undefined;
    const of = this.#path(expression.of, frame);
    return of === undefined ? undefined : `${of}.${expression.name}`;
  }

  #attribute(expression: Extract<Expression, { kind: 'attribute' }>, frame: Frame): Py {
    const path = this.#path(expression, frame);
    if (path !== undefined) return this.#global(path);
    return this.attribute(this.evaluate(expression.of, frame), expression.name);
  }

  #global(path: string): Py {
    if (path.startsWith('CONSTANTS.')) return this.#library.constant(path.slice('CONSTANTS.'.length));
    if (!path.startsWith('__torch__.')) return new Named(path);
    const definition = this.#library.function(path);
    if (definition) return new Callable(path, (args, named) => this.#run(definition, path, args, named));
    const type = this.#library.class(path);
    if (type) return new Callable(path, (args, named) => this.#construct(path, type, args, named));
    // A context manager is made first, and its constructor called afterwards.
    return path.endsWith('.__new__') ? new Callable(path, () => new Obj(path.slice(0, -8))) : new Named(path);
  }

  #construct(path: string, type: ClassDefinition, args: readonly Py[], named: ReadonlyMap<string, Py>): Py {
    if (type.base === 'NamedTuple') {
      const items = type.fields.map((name, i) => args[i] ?? named.get(name) ?? null);
      return new Tuple(items, type.fields);
    }
    const made = new Obj(path);
    const init = type.methods.get('__init__');
    if (init) this.#run(init, `${path}.__init__`, [made, ...args], named);
    return made;
  }

  /** An attribute of a module or object: its own, or a constant or method of its class. */
  attribute(of: Py, name: string): Py {
    if (of instanceof Failed) return of;
    if (of instanceof Tuple && of.names) {
      const at = of.names.indexOf(name);
      return at < 0 ? refuse(`a tuple has no ${name}`) : (of.items[at] as Py);
    }
    if (!(of instanceof Obj)) return refuse(`${kindOf(of)} has no attribute ${name}`);
    const own = of.attributes.get(name);
    if (own !== undefined) return own;
    const type = this.#library.class(of.type);
    const constant = type?.constants.get(name);
    if (constant) {
      const frame: Frame = { where: of.type, variables: new Map(), line: 0 };
      return this.evaluate(constant, frame);
    }
    const method = type?.methods.get(name);
    if (method)
      return new Callable(`${of.type}.${name}`, (args, named) =>
        this.#run(method, `${of.type}.${name}`, [of, ...args], named),
      );
    return refuse(`${of.type} has no attribute ${name}`);
  }

  #call({ callee, args, line }: Extract<Expression, { kind: 'call' }>, frame: Frame): Py {
    this.#c.step();
    const path = this.#path(callee, frame);
    if (path !== undefined) {
      const special = this.#builtin(path, args, frame);
      if (special !== undefined) return special;
    }
    const values = args
      .filter(({ name }) => name === undefined)
      .map(({ value }) => this.evaluate(value, frame));
    const named = new Map<string, Py>();
    for (const { name, value } of args) if (name !== undefined) named.set(name, this.evaluate(value, frame));
    frame.line = line;
    if (path !== undefined && !path.startsWith('__torch__.'))
      return this.#operate(operatorName(path), values, named, frame);
    const target = path === undefined ? this.#callee(callee, frame) : this.#global(path);
    if (target instanceof Failed) return target;
    if (target instanceof Callable) return target.call(values, named);
    return refuse(
      `calls ${target instanceof Named ? target.name : kindOf(target)}, which is not in the archive`,
    );
  }

  #callee(callee: Expression, frame: Frame): Py {
    if (callee.kind !== 'attribute') return this.evaluate(callee, frame);
    return this.attribute(this.evaluate(callee.of, frame), callee.name);
  }

  /** Forms that are no function calls. */
  #builtin(path: string, args: readonly Argument[], frame: Frame): Py | undefined {
    const value = (i: number) => this.evaluate(args[i]?.value ?? refuse(`${path} without argument`), frame);
    switch (path) {
      case 'uninitialized':
        return new Unset();
      case 'annotate':
      case 'unchecked_cast':
        return value(1);
      case 'getattr': {
        const name = value(1);
        return this.attribute(value(0), typeof name === 'string' ? name : refuse('getattr without a name'));
      }
      case 'int':
      case 'float':
      case 'bool': {
        const own = value(0);
        return own instanceof Failed ? own : convert(path)(this.#c, own);
      }
      case 'isinstance':
        return refuse('isinstance is not supported');
      case 'list':
        return callOperator(this.#c, 'list', [value(0)], NO_NAMES);
      case 'torch.device':
        return new Named('cpu');
      default:
        return undefined;
    }
  }

  /** Calls an operator; a problem is noted, and its result stands for nothing. */
  #operate(name: string, args: readonly Py[], named: ReadonlyMap<string, Py>, frame: Frame): Py {
    return callNoted(this.#c, this.#problems, { name, args, named, node: `${frame.where}:${frame.line}` });
  }
}

/** `torch.add` and `ops.prim.dtype` by their last part; others keep their namespace, which no table has. */
function operatorName(path: string): string {
  return path.replace(/^(torch|ops\.aten|ops\.prim|torch\._C\._nn|torch\.nn\.functional)\./, '');
}
