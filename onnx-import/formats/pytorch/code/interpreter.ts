/**
 * Runs the code of a TorchScript archive on symbolic values. Calls are inlined and loops unrolled; an `if` on what is
 * known during conversion takes one branch, on data it becomes ONNX's If. Nothing of the file is executed otherwise.
 */
import type { Problems } from '../../problems.ts';

import { callOperator } from '../aten/table.ts';
import { chooseBranch, type Variables } from '../run/branches.ts';
import type { Context } from '../run/context.ts';
import { SizeBound } from '../run/sizes.ts';
import { isInt, itemsOf, kindOf, Obj, type Py, refuse } from '../run/values.ts';
import type { Expression, FunctionDefinition, Statement, Target } from './ast.ts';
import { Evaluator, NO_NAMES } from './evaluator.ts';
import { Failed, type Frame, type Library, Stopped } from './library.ts';

const MAX_ITERATIONS = 100_000;
const NO_GRAD = '__torch__.torch.autograd.grad_mode.no_grad';

export class Interpreter {
  readonly #c: Context;
  readonly #library: Library;
  readonly #evaluator: Evaluator;
  #frame: Frame | undefined;
  #isRestoring = false;

  /** Where the run is, or ended: function and line. */
  get position(): string {
    return this.#frame ? `${this.#frame.where}:${this.#frame.line}` : 'forward';
  }

  constructor(c: Context, library: Library, problems: Problems) {
    this.#c = c;
    this.#library = library;
    this.#evaluator = new Evaluator(c, library, problems, (...call) => this.#function(...call));
  }

  /** Calls a method with arguments by position. */
  method(self: Obj, name: string, args: readonly (Py | undefined)[]): Py {
    const definition = this.#library.class(self.type)?.methods.get(name);
    if (!definition) return refuse(`${self.type} has no method ${name}`);
    return this.#function(definition, `${self.type}.${name}`, [self, ...args], NO_NAMES);
  }

  /** Gives an object its state by its own code; objects of C++ keep theirs as it is. */
  restore(object: Obj, state: Py): void {
    if (this.#library.class(object.type)?.methods.has('__setstate__')) {
      this.#isRestoring = true;
      this.method(object, '__setstate__', [state]);
      this.#isRestoring = false;
    } else object.attributes.set('state', state);
  }

  #function(
    definition: FunctionDefinition,
    where: string,
    args: readonly (Py | undefined)[],
    named: ReadonlyMap<string, Py>,
  ): Py {
    return this.#c.nested(where, () => {
      const variables: Variables = new Map();
      const frame: Frame = { where: where.replace(/^__torch__\./, ''), variables, line: definition.line };
      if (args.length > definition.parameters.length)
        refuse(`${where} takes ${definition.parameters.length} arguments`);
      for (const [i, { name, fallback }] of definition.parameters.entries()) {
        const given = i < args.length ? args[i] : named.get(name);
        if (given === undefined && !fallback) refuse(`${where} needs ${name}`);
        variables.set(name, given ?? (fallback ? this.#evaluator.evaluate(fallback, frame) : null));
      }
      return this.#block(definition.body, frame) ?? null;
    });
  }

  /** Undefined until a return. */
  #block(statements: readonly Statement[], frame: Frame): Py | undefined {
    for (const statement of statements) {
      this.#c.step();
      frame.line = statement.line;
      this.#frame = frame;
      const returned = this.#statement(statement, frame);
      if (returned !== undefined) return returned;
    }
    return undefined;
  }

  #statement(statement: Statement, frame: Frame): Py | undefined {
    switch (statement.kind) {
      case 'pass':
        return undefined;
      case 'return':
        return statement.value ? this.#evaluator.evaluate(statement.value, frame) : null;
      case 'expression':
        this.#evaluator.evaluate(statement.value, frame);
        return undefined;
      case 'assign': {
        const value = this.#evaluator.evaluate(statement.value, frame);
        for (const target of statement.targets) this.#assign(target, value, frame);
        return undefined;
      }
      case 'if':
        return this.#if(statement, frame);
      case 'for':
        return this.#for(statement, frame);
      case 'while':
        return this.#while(statement, frame);
      case 'with':
        return this.#with(statement, frame);
    }
  }

  /** Gradients are never computed here, so switching them off changes nothing. */
  #with({ context, body }: Extract<Statement, { kind: 'with' }>, frame: Frame): Py | undefined {
    const manager = this.#evaluator.evaluate(context, frame);
    if (manager instanceof Failed) throw new Stopped();
    const type = manager instanceof Obj ? manager.type : kindOf(manager);
    if (type !== NO_GRAD) refuse(`enters ${type} by "with", which is not supported`);
    return this.#block(body, frame);
  }

  #assign({ parts, isTuple }: Target, value: Py, frame: Frame): void {
    const [first] = parts;
    if (!isTuple && first) return this.#assignOne(first, value, frame);
    const items = value instanceof Failed ? parts.map(() => value) : itemsOf(value);
    if (items?.length !== parts.length) refuse(`takes ${kindOf(value)} apart into ${parts.length}`);
    for (const [i, part] of parts.entries()) this.#assignOne(part, items?.[i] as Py, frame);
  }

  #assignOne(target: Expression, value: Py, frame: Frame): void {
    if (target.kind === 'name') frame.variables.set(target.name, value);
    else if (target.kind === 'tuple') this.#assign({ parts: target.items, isTuple: true }, value, frame);
    else if (target.kind === 'attribute')
      this.#setAttribute(this.#evaluator.evaluate(target.of, frame), target.name, value);
    else if (target.kind === 'subscript')
      callOperator(
        this.#c,
        '_set_item',
        [this.#evaluator.evaluate(target.of, frame), this.#evaluator.evaluate(target.index, frame), value],
        NO_NAMES,
      );
    else refuse('assigns to what is no variable');
  }

  #setAttribute(of: Py, name: string, value: Py): void {
    if (!(of instanceof Obj)) refuse(`sets an attribute of ${kindOf(of)}`);
    const isModule = this.#library.class(of.type)?.base === 'Module';
    if (isModule && !this.#isRestoring)
      refuse(
        `keeps a state from one call to the next (${of.type} sets its attribute ${name}), which cannot be served`,
      );
    if (this.#c.isBranch) refuse('changes an object in a branch that the data decide');
    of.attributes.set(name, value);
  }

  #if(statement: Extract<Statement, { kind: 'if' }>, frame: Frame): Py | undefined {
    const raises = (block: readonly Statement[]) => block.some(isRaise);
    let test: Py;
    try {
      test = this.#evaluator.truth(statement.test, frame);
    } catch (error) {
      if (!(error instanceof SizeBound) || raises(statement.yes) === raises(statement.no)) throw error;
      // An assertion about sizes: what it would refuse is refused when the graph runs, or never asked.
      test = raises(statement.no);
    }
    if (typeof test === 'boolean') return this.#block(test ? statement.yes : statement.no, frame);
    const scalar = test;
    if (raises(statement.yes) || raises(statement.no)) {
      this.#c.notes.add(`the check of values in ${frame.where}:${statement.line} is left out`);
      return this.#block(raises(statement.yes) ? statement.no : statement.yes, frame);
    }
    chooseBranch(
      this.#c,
      scalar,
      frame.variables,
      [statement.yes, statement.no].map((block) => (variables: Variables) => {
        const returned = this.#block(block, { ...frame, variables });
        if (returned !== undefined) refuse('returns inside of a branch that the data decide');
      }) as [(own: Variables) => void, (own: Variables) => void],
    );
    return undefined;
  }

  #for({ target, items, body }: Extract<Statement, { kind: 'for' }>, frame: Frame): Py | undefined {
    const values = this.#range(items, frame) ?? itemsOf(this.#evaluator.evaluate(items, frame));
    if (!values) return refuse('loops over what is no list');
    if (values.length > MAX_ITERATIONS) return refuse(`loops over ${MAX_ITERATIONS} times`);
    for (const value of values) {
      this.#c.step();
      this.#assign(target, value, frame);
      const returned = this.#block(body, frame);
      if (returned !== undefined) return returned;
    }
    return undefined;
  }

  /** The numbers of a range with known ends. */
  #range(items: Expression, frame: Frame): readonly Py[] | undefined {
    if (items.kind !== 'call' || items.callee.kind !== 'name' || items.callee.name !== 'range')
      return undefined;
    const bounds = items.args.map(({ value }) => this.#evaluator.evaluate(value, frame));
    if (bounds.some((bound) => bound instanceof Failed)) throw new Stopped();
    for (const bound of bounds)
      if (!isInt(bound))
        refuse(`has a loop whose count the data decide (${kindOf(bound)}), which is not supported`);
    const [start, end, step] =
      bounds.length === 1 ? [0, bounds[0], 1] : [bounds[0], bounds[1], bounds[2] ?? 1];
    const [from, to, by] = [start, end, step].map((bound) =>
      this.#c.fixed(bound as number, 'count of a loop'),
    ) as [number, number, number];
    const count = Math.max(0, Math.ceil((to - from) / by));
    if (!(count <= MAX_ITERATIONS)) refuse(`loops ${count} times, the limit is ${MAX_ITERATIONS}`);
    return Array.from({ length: count }, (_, i) => from + i * by);
  }

  #while({ test, body }: Extract<Statement, { kind: 'while' }>, frame: Frame): Py | undefined {
    for (let i = 0; i < MAX_ITERATIONS; i++) {
      this.#c.step();
      const goesOn = this.#evaluator.truth(test, frame);
      if (typeof goesOn !== 'boolean') return refuse('has a loop that the data end, which is not supported');
      if (!goesOn) return undefined;
      const returned = this.#block(body, frame);
      if (returned !== undefined) return returned;
    }
    return refuse(`loops over ${MAX_ITERATIONS} times`);
  }
}

function isRaise(statement: Statement): boolean {
  if (statement.kind !== 'expression' || statement.value.kind !== 'call') return false;
  const { callee } = statement.value;
  return callee.kind === 'attribute' && callee.name === 'RaiseException';
}
