/**
 * Runs the bytecode of a pickled module's methods on symbolic values. Python executes nothing: each operation of the
 * code either has a rule here or ends the conversion with its name.
 */
import type { Pickled } from '../../../files/pickled.ts';
import { Dict, Named, type Py, refuse, Tuple } from '../run/values.ts';
import { binary, inPlace } from './calls.ts';
import type { Code, PythonFunction } from './classes.ts';
import type { Surroundings } from './frame.ts';
import { type Frame, MAX_STACK, pop, popMany, type World } from './frame.ts';
import { STEPS } from './steps.ts';

/** Calls a function that the file holds by value. */
export function callFunction(
  world: World,
  own: PythonFunction,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): Py {
  const names = new Map<string, Py>();
  const free = own.code.cells.slice(own.code.cells.length - own.closure.length);
  const cells = new Map(free.map((name, i) => [name, world.value(own.closure[i] ?? null)] as const));
  const global = (name: string): Py => {
    const known = names.get(name);
    if (known !== undefined) return known;
    const value = own.globals.has(name) ? world.value(own.globals.get(name) as Pickled) : new Named(name);
    names.set(name, value);
    return value;
  };
  const defaults = own.defaults.map((value) => world.value(value));
  const keywordDefaults = new Map(
    [...own.keywordDefaults].map(
      ([name, value]) => [typeof name === 'string' ? name : '', world.value(value)] as const,
    ),
  );
  return run(world, own.code, { global, cells, defaults, keywordDefaults }, args, named);
}

function run(
  world: World,
  code: Code,
  around: Surroundings,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): Py {
  return world.c.nested(code.name, () => {
    const locals = bind(code, around, args, named);
    const frame: Frame = {
      run: (...inner) => run(world, ...inner),
      world,
      code,
      locals,
      global: around.global,
      cells: around.cells,
      stack: [],
      loops: [],
      keywords: [],
    };
    let at = 0;
    for (;;) {
      world.c.step();
      const instruction = code.instructions[at];
      if (!instruction) return refuse(`${code.name} ends without a return`);
      if (instruction.op === 'RETURN_VALUE') return pop(frame);
      if (frame.stack.length > MAX_STACK)
        return refuse(`${code.name} has a stack of over ${MAX_STACK} values`);
      at = step(frame, instruction.op, instruction.arg, instruction.target) ?? at + 1;
    }
  });
}

function bind(
  code: Code,
  { defaults, keywordDefaults }: Surroundings,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
) {
  const locals = new Map<string, Py>();
  const { positional, keywordOnly, variables } = code;
  if (args.length > positional && !code.hasRest)
    refuse(`${code.name} takes ${positional} arguments, got ${args.length}`);
  const rest = new Map(named);
  for (let i = 0; i < positional + keywordOnly; i++) {
    const name = variables[i] as string;
    const fallback = i < positional ? defaults[i - positional + defaults.length] : keywordDefaults.get(name);
    const isPositional = i < Math.min(positional, args.length);
    const value = isPositional ? args[i] : rest.has(name) ? rest.get(name) : fallback;
    if (value === undefined) return refuse(`${code.name} needs ${name}`);
    rest.delete(name);
    locals.set(name, value);
  }
  let next = positional + keywordOnly;
  if (code.hasRest) locals.set(variables[next++] as string, new Tuple(args.slice(positional)));
  if (code.hasKeywords) {
    const dict = new Dict();
    for (const [name, value] of rest) dict.items.set(name, value);
    locals.set(variables[next] as string, dict);
  } else if (rest.size > 0) refuse(`${code.name} has no ${[...rest.keys()].join(', ')}`);
  return locals;
}

/** The index of the next instruction, when it is another than the following one. */
function step(frame: Frame, op: string, arg: number, target: number): number | undefined {
  const { stack } = frame;
  const rule = STEPS[op];
  if (rule) return rule(frame, arg, target);
  if (op.startsWith('B:')) {
    const [a, b] = popMany(frame, 2) as [Py, Py];
    stack.push(binary(frame, op.slice(2), a, b));
    return undefined;
  }
  if (op.startsWith('I:')) {
    const [a, b] = popMany(frame, 2) as [Py, Py];
    stack.push(inPlace(frame, op.slice(2), a, b));
    return undefined;
  }
  return refuse(`Python's ${op} is not supported; export the model with torch.jit.trace or torch.jit.script`);
}
