/** Runs the nodes of a program on symbolic values, by the operators that TorchScript uses. */
import type { Problems } from '../../problems.ts';
import { callNoted } from '../aten/noted.ts';
import type { Context } from '../run/context.ts';
import { Float, itemsOf, Named, type Py, refuse, Tuple, Unset } from '../run/values.ts';
import { type Json, list, object, text } from './json.ts';
import { typeOf } from './weights.ts';

type Values = Map<string, Py>;

/** Python's operators on sizes. */
const OF_PYTHON: Readonly<Record<string, string>> = {
  getitem: '__getitem__',
  add: 'add',
  sub: 'sub',
  mul: 'mul',
  floordiv: 'floordiv',
  mod: 'remainder',
  neg: 'neg',
};

/** Checks of what the exporter took for granted; they return nothing. */
const CHECKS = /^(_assert|sym_constrain_range)/;
const WITHOUT_GRADIENTS = 'torch.ops.higher_order.wrap_with_set_grad_enabled';
const KEYWORD = 2;

export class Program {
  readonly #c: Context;
  readonly #problems: Problems;
  #position = 'forward';

  constructor(c: Context, problems: Problems) {
    this.#c = c;
    this.#problems = problems;
  }

  /** The node that runs. */
  get position(): string {
    return this.#position;
  }

  run(graph: Json, values: Values): readonly Py[] {
    for (const each of list(graph['nodes'], 'nodes')) {
      this.#c.step();
      this.#node(object(each, 'node'), values);
    }
    return list(graph['outputs'], 'outputs').map((output) => this.#value(object(output, 'output'), values));
  }

  #node(node: Json, values: Values): void {
    const target = text(node['target'], 'target of a node');
    const outputs = list(node['outputs'], 'outputs of a node').map((output) => object(output, 'output'));
    this.#position = typeof node['name'] === 'string' ? node['name'] : target;
    // Comparisons of sizes are there for the checks alone.
    if (outputs.every((output) => 'as_sym_bool' in output) && outputs.length > 0) return;
    const name = operatorOf(target);
    if (name !== undefined && CHECKS.test(name)) return;
    const made = this.#call(target, name, node, values);
    const kinds = outputs.flatMap((output) => namesOf(output));
    const isList = outputs.length === 1 && outputs[0] !== undefined && 'as_tensors' in outputs[0];
    const items = kinds.length === 1 && !isList ? [made] : (itemsOf(made) ?? kinds.map(() => made));
    for (const [i, output] of kinds.entries()) values.set(output, items[i] ?? new Unset());
  }

  #call(target: string, name: string | undefined, node: Json, values: Values): Py {
    const inputs = list(node['inputs'], 'inputs of a node').map((input) => object(input, 'input'));
    if (target === WITHOUT_GRADIENTS) return this.#inline(inputs, values);
    const args: Py[] = [];
    const named = new Map<string, Py>();
    for (const input of inputs) {
      const value = this.#value(object(input['arg'], 'arg'), values);
      if (input['kind'] === KEYWORD) named.set(text(input['name'], 'name'), value);
      else args.push(value);
    }
    return callNoted(this.#c, this.#problems, { name: name ?? target, args, named, node: this.#position });
  }

  /** Gradients are never computed here, so switching them off changes nothing. */
  #inline(inputs: readonly Json[], values: Values): Py {
    const [, body, ...args] = inputs.map((input) => object(input['arg'], 'arg'));
    const graph = object(object(body?.['as_graph'], 'graph of a node')['graph'], 'graph of a node');
    const own: Values = new Map();
    for (const [i, input] of list(graph['inputs'], 'inputs').entries())
      for (const name of namesOf(object(input, 'input')))
        own.set(name, this.#value(args[i] ?? refuse('a graph inside of the program lacks an input'), values));
    const made = this.#c.nested(this.#position, () => this.run(graph, own));
    const [only] = made;
    return made.length === 1 && only !== undefined ? only : new Tuple(made);
  }

  #value(arg: Json, values: Values): Py {
    const [kind = '', content] = Object.entries(arg)[0] ?? [];
    const known = (of: unknown) => {
      const name = text(object(of, kind)['name'] ?? object(of, kind)['as_name'], `name in ${kind}`);
      return values.get(name) ?? refuse(`${name} is used before it is made`);
    };
    const size = (of: unknown): Py => {
      const { as_int: fixed } = object(of, kind);
      return typeof fixed === 'number' ? fixed : known(of);
    };
    const all = (read: (of: unknown) => Py) => this.#c.list(list(content, kind).map(read));
    const kinds: Readonly<Record<string, () => Py>> = {
      as_none: () => null,
      as_tensor: () => known(content),
      as_tensors: () => all(known),
      as_optional_tensor: () => this.#value(object(content, kind), values),
      as_optional_tensors: () => all((of) => this.#value(object(of, kind), values)),
      as_int: () => wholeOf(content),
      as_ints: () => all(wholeOf),
      as_float: () => new Float(Number(content)),
      as_floats: () => all((of) => new Float(Number(of))),
      as_bool: () => content === true,
      as_bools: () => all((of) => of === true),
      as_string: () => text(content, kind),
      as_sym_int: () => size(content),
      as_sym_ints: () => all(size),
      as_scalar_type: () => typeOf(content),
      // Where values lie in memory changes none of them.
      as_memory_format: () => null,
      as_layout: () => null,
      as_device: () => new Named('cpu'),
    };
    const read = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
    return read ? read() : refuse(`an argument of the kind ${kind} is not supported`);
  }
}

function wholeOf(value: unknown): number {
  return typeof value === 'number' ? value : refuse('needs a whole number');
}

function namesOf(output: Json): readonly string[] {
  const [kind, content] = Object.entries(output)[0] ?? [];
  if (kind === 'as_none') return [];
  const each = Array.isArray(content) ? content : [content];
  return each.map((one) => {
    const of = object(one, 'output');
    return text(of['name'] ?? of['as_name'], 'name of an output');
  });
}

/** Undefined for what is no operator of aten, whose whole name is shown then. */
function operatorOf(target: string): string | undefined {
  const [, aten] = /^torch\.ops\.aten\.(\w+)\.\w+$/.exec(target) ?? [];
  const [, python = ''] = /^_operator\.(\w+)$/.exec(target) ?? [];
  return aten ?? (Object.hasOwn(OF_PYTHON, python) ? OF_PYTHON[python] : undefined);
}
