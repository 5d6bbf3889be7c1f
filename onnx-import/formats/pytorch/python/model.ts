/**
 * Modules that torch.save pickled whole. Classes by value (cloudpickle) have their bytecode in the file and are run
 * symbolically; a state_dict and classes by name have none and are refused with the way to export them.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { type Pickled, PickledCall, PickledGlobal } from '../../../files/pickled.ts';
import type { Problems } from '../../problems.ts';
import { textOf } from '../aten/python.ts';
import type { TorchFile } from '../files/archive.ts';
import { Objects, Weights } from '../files/objects.ts';
import type { Parameter } from '../inputs.ts';
import { classRecipe, weightsRecipe } from '../recipe.ts';
import type { Context } from '../run/context.ts';
import { Callable, Dict, Named, Obj, type Py, refuse, Tuple } from '../run/values.ts';
import type { Runnable } from '../script.ts';
import { namedMember } from './calls.ts';
import { classOf, functionOf, memberOf, outerBases, type PythonClass } from './classes.ts';
import type { World } from './frame.ts';
import { childrenOf, LAYERS } from './layers.ts';
import { callFunction } from './vm.ts';

const EXPORT =
  'in Python: torch.jit.trace(model.eval(), example_input).save("model.pt"), or ' +
  'torch.onnx.export(model.eval(), example_input, "model.onnx", opset_version=17)';

/** What training scripts call the weights in a checkpoint. */
const WEIGHTS_KEY = /^(model_?)?(state_?dict|weights|model|net|ema)$/;

const NOTE =
  'the module is converted from the bytecode of its classes, which was compared with torch for few networks; compare the answers with --reference';

/** @throws bad_model for what has no code in the file */
export function readPickled(file: TorchFile): Runnable {
  const { root, name } = file;
  if (!(root instanceof PickledCall) || !(root.state instanceof Map) || !root.state.has('_modules'))
    throw notAModule(root, name);
  const parameters = parametersOf(root, name);
  const weights = new Weights(file.storages);
  return {
    parameters,
    run: (c, problems, args) => {
      c.notes.add(NOTE);
      const world = new Modules(c, weights);
      return { result: () => world.forward(root, args, problems), position: () => world.position };
    },
  };
}

function notAModule(root: Pickled, name: string) {
  const items = itemsOf(root);
  if (!items)
    return badModel(
      `${name}: holds ${root instanceof PickledCall ? root.name || 'an object' : 'a value'}, which is no model; ${EXPORT}`,
    );
  const keys = [...items.keys()].filter((key) => typeof key === 'string');
  const key = keys.find((one) => WEIGHTS_KEY.test(one) && itemsOf(items.get(one) ?? null));
  return badModel(
    `${name}: holds weights without a model (a ${key === undefined ? 'state_dict' : 'checkpoint'} with ${keys.slice(0, 3).join(', ')}); ${weightsRecipe({ file: name, key })}`,
  );
}

/** Of a dict. */
function itemsOf(value: Pickled): ReadonlyMap<Pickled, Pickled> | undefined {
  const isOrdered = value instanceof PickledCall && value.name === 'collections.OrderedDict';
  const items = isOrdered ? value.items : value;
  return items instanceof Map ? items : undefined;
}

/** The parameters of forward, and that all code is there. */
function parametersOf(root: PickledCall, name: string): Parameter[] {
  const type = classOf(root.callee);
  const forward = type && functionOf(memberOf(type, 'forward'));
  if (forward) {
    const { positional, variables, keywordOnly } = forward.code;
    return variables.slice(1, positional + keywordOnly).map((parameter, i) => ({
      name: parameter,
      type: 'Tensor',
      hasDefault: i + 1 >= positional - forward.defaults.length,
    }));
  }
  const known = type ? layerOf(outerBases(type)) : layerOf([root.name]);
  if (known !== undefined) return [{ name: 'input', type: 'Tensor', hasDefault: false }];
  throw badModel(
    `${name}: holds a module of class ${root.name || type?.name} by name only, its code is not in the file; ${classRecipe({ file: name, type: root.name })}`,
  );
}

/** The class of torch.nn that a module is, or is derived from. */
function layerOf(names: readonly string[]): string | undefined {
  for (const name of names) {
    const short = name.split('.').at(-1) ?? '';
    if (name.startsWith('torch.nn.') && (short === 'Sequential' || Object.hasOwn(LAYERS, short)))
      return short;
  }
  return undefined;
}

class Modules implements World {
  readonly c: Context;
  readonly #objects: Objects;
  readonly #classes = new Map<Obj, PythonClass | undefined>();
  #position = 'forward';

  constructor(c: Context, weights: Weights) {
    this.c = c;
    this.#objects = new Objects(c, weights, (pickled) => this.#special(pickled));
  }

  get position(): string {
    return this.#position;
  }

  forward(root: PickledCall, args: readonly (Py | undefined)[], problems: Problems): Py {
    const module = this.#objects.value(root);
    void problems;
    const given = args.slice(0, args.findLastIndex((arg) => arg !== undefined) + 1);
    if (!(module instanceof Obj) || given.includes(undefined))
      return refuse('needs a shape for each input before the last one given');
    return this.call(module, given as readonly Py[], new Map());
  }

  value(pickled: Pickled): Py {
    return this.#objects.value(pickled);
  }

  #special(pickled: PickledCall | PickledGlobal): Py | undefined {
    if (pickled instanceof PickledGlobal) return namedMember(pickled.name);
    if (pickled.name.endsWith('.subimport') || pickled.name.endsWith('.dynamic_subimport'))
      return new Named(textOf(this.value(pickled.operands[0] ?? null)));
    if (pickled.name === 'torch.Size') return new Tuple(this.#items(pickled.operands[0]));
    const own = functionOf(pickled);
    if (own) return new Callable(own.code.name, (args, named) => callFunction(this, own, args, named));
    const type = classOf(pickled);
    return type ? new Named(type.name) : undefined;
  }

  #items(pickled: Pickled | undefined): readonly Py[] {
    const value = this.value(pickled ?? null);
    return value instanceof Tuple ? value.items : [];
  }

  #class(of: Obj): PythonClass | undefined {
    if (!this.#classes.has(of)) {
      const { origin } = of;
      this.#classes.set(of, origin instanceof PickledCall ? classOf(origin.callee) : undefined);
    }
    return this.#classes.get(of);
  }

  /** As nn.Module looks it up: attributes, parameters, buffers, modules, then the class. */
  attribute(of: Obj, name: string): Py {
    const found = this.#find(of, name);
    return found === undefined ? refuse(`${this.#name(of)} has no attribute ${name}`) : found;
  }

  #find(of: Obj, name: string): Py | undefined {
    const own = of.attributes.get(name);
    if (own !== undefined) return own;
    for (const table of ['_parameters', '_buffers', '_modules']) {
      const items = of.attributes.get(table);
      const value = items instanceof Dict ? items.items.get(name) : undefined;
      if (value !== undefined) return value;
    }
    const type = this.#class(of);
    const member = type && memberOf(type, name);
    const method = functionOf(member);
    if (method) return new Callable(name, (args, named) => callFunction(this, method, [of, ...args], named));
    if (member !== undefined) return this.value(member);
    if (name === 'forward' || name === '__call__')
      return new Callable(name, (args, named) => this.call(of, args, named));
    return undefined;
  }

  #name(of: Obj): string {
    return this.#class(of)?.name ?? of.type.split('.').at(-1) ?? 'module';
  }

  call(of: Obj, args: readonly Py[], named: ReadonlyMap<string, Py>): Py {
    for (const hooks of ['_forward_hooks', '_forward_pre_hooks']) {
      const table = of.attributes.get(hooks);
      if (table instanceof Dict && table.items.size > 0)
        refuse(`${this.#name(of)} has ${hooks.slice(1)}, which are not run`);
    }
    const outer = this.#position;
    this.#position = this.#name(of);
    const result = this.c.nested(this.#position, () => this.#run(of, args, named));
    this.#position = outer;
    return result;
  }

  #run(of: Obj, args: readonly Py[], named: ReadonlyMap<string, Py>): Py {
    const type = this.#class(of);
    const forward = type && functionOf(memberOf(type, 'forward'));
    if (forward) return callFunction(this, forward, [of, ...args], named);
    const layer = layerOf(type ? outerBases(type) : [of.type]);
    if (layer === undefined)
      return refuse(
        `class ${of.type || type?.name} is not in the file, nor a layer that is supported; ${EXPORT}`,
      );
    if (named.size > 0) return refuse(`${layer} with arguments by name is not supported`);
    if (layer === 'Sequential')
      return [...childrenOf(of).values()].reduce((x, child) => this.#child(child, x), args[0] as Py);
    const run = LAYERS[layer] as (typeof LAYERS)[string];
    return run(this.c, (name) => this.#find(of, name) ?? null, args);
  }

  #child(child: Py, x: Py): Py {
    return child instanceof Obj ? this.call(child, [x], new Map()) : refuse('has a child that is no module');
  }

  /** What a loop over the module gives. */
  items(of: Obj): readonly Py[] | undefined {
    const layer = this.#class(of) ? outerBases(this.#class(of) as PythonClass) : [of.type];
    if (layer.some((name) => /\.(Sequential|ModuleList)$/.test(name))) return [...childrenOf(of).values()];
    if (layer.some((name) => name.endsWith('.ModuleDict'))) return [...childrenOf(of).keys()];
    return undefined;
  }
}
