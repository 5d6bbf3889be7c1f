/** Makes the values of a symbolic run of pickled ones: modules with their attributes, tensors, lists and numbers. */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import {
  type Pickled,
  PickledCall,
  PickledFloat,
  PickledGlobal,
  PickledTuple,
} from '../../../files/pickled.ts';
import type { Context } from '../run/context.ts';
import { TensorRef } from '../run/tensor.ts';
import { Dict, Float, List, Named, Obj, type Py, Tuple } from '../run/values.ts';
import { isQuantized, type QuantizedTensor, readQuantized } from './quantized.ts';
import { isTensor, readTensor, type Storages } from './tensors.ts';

const MAX_DEPTH = 1_000;

/** Reads each tensor once, also when the conversion is tried several times. */
export class Weights {
  readonly #storages: Storages;
  readonly #read = new Map<PickledCall, Tensor>();
  readonly #quantized = new Map<PickledCall, QuantizedTensor>();

  constructor(storages: Storages) {
    this.#storages = storages;
  }

  quantized(call: PickledCall): QuantizedTensor {
    const known = this.#quantized.get(call) ?? readQuantized(call, this.#storages);
    this.#quantized.set(call, known);
    return known;
  }

  tensor(call: PickledCall): Tensor {
    const known = this.#read.get(call);
    if (known) return known;
    const tensor = readTensor(call, this.#storages);
    this.#read.set(call, tensor);
    return tensor;
  }
}

export function weightRef(c: Context, weights: Weights, call: PickledCall, name: string): TensorRef {
  return storedRef(c, () => weights.tensor(call), name);
}

/** A weight, which is read when it is needed. A write to it would outlive the call. */
export function storedRef(c: Context, read: () => Tensor, name: string): TensorRef {
  const make = () => c.g.constant(read(), name);
  const fixed = `keeps a state from one call to the next (it writes to "${name}"), which cannot be served; if it is in training mode, call model.eval() before saving`;
  return new TensorRef(c.scopes, make, fixed);
}

/** Weights with scales. */
function quantizedRef(c: Context, weights: Weights, call: PickledCall, name: string): TensorRef {
  const made = storedRef(c, () => weights.quantized(call).tensor, name);
  const { scales } = weights.quantized(call);
  made.quantized = { scales, zeroPoint: 0, low: -255, high: 255 };
  return made;
}

const WRAPPERS = /^torch\.jit\._pickle\.(build_(int|double|bool|tensor|str)list|restore_type_tag)$/;

type Resolve = (pickled: PickledCall | PickledGlobal) => Py | undefined;
/** Gives an object what its class stored in place of its attributes. */
type SetState = (object: Obj, state: Py) => void;

export class Objects {
  readonly #c: Context;
  readonly #weights: Weights;
  readonly #made = new Map<Pickled, Py>();
  readonly #resolve: Resolve | undefined;
  readonly #setState: SetState | undefined;
  #depth = 0;

  /** `resolve` makes what only some files have; undefined leaves it to the rules here. */
  constructor(c: Context, weights: Weights, resolve?: Resolve, setState?: SetState) {
    this.#c = c;
    this.#setState = setState;
    this.#weights = weights;
    this.#resolve = resolve;
  }

  value(pickled: Pickled, path = ''): Py {
    if (pickled === null || typeof pickled !== 'object') return pickled;
    const known = this.#made.get(pickled);
    if (known !== undefined) return known;
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw badModel(`the pickled objects are nested over ${MAX_DEPTH} times`);
    const made = this.#new(pickled, path);
    this.#depth -= 1;
    this.#made.set(pickled, made);
    return made;
  }

  #new(pickled: Exclude<Pickled, null | boolean | number | string>, path: string): Py {
    if (pickled instanceof PickledFloat) return new Float(pickled.value);
    if (pickled instanceof PickledTuple)
      return new Tuple(pickled.items.map((item, i) => this.value(item, `${path}.${i}`)));
    if (Array.isArray(pickled)) return new List(pickled.map((item, i) => this.value(item, `${path}.${i}`)));
    if (pickled instanceof Map) return this.#dict(pickled, path);
    const special =
      pickled instanceof PickledCall || pickled instanceof PickledGlobal
        ? this.#resolve?.(pickled)
        : undefined;
    if (special !== undefined) return special;
    if (pickled instanceof PickledGlobal) return new Named(pickled.name);
    if (!(pickled instanceof PickledCall)) throw badModel(`${path}: a value of an unknown kind`);
    if (this.#setState && isQuantized(pickled)) return quantizedRef(this.#c, this.#weights, pickled, path);
    if (isTensor(pickled)) return weightRef(this.#c, this.#weights, pickled, path);
    if (WRAPPERS.test(pickled.name)) return this.value(pickled.operands[0] ?? null, path);
    if (pickled.name === 'collections.OrderedDict') return this.#dict(pickled.items, path);
    if (pickled.name === 'torch.device') return new Named('cpu');
    return this.#object(pickled, path);
  }

  #dict(items: ReadonlyMap<Pickled, Pickled>, path: string): Dict {
    const dict = new Dict();
    for (const [key, value] of items)
      if (typeof key === 'string' || typeof key === 'number')
        dict.items.set(key, this.value(value, `${path}.${key}`));
    return dict;
  }

  #object(call: PickledCall, path: string): Obj {
    const object = new Obj(call.name);
    object.origin = call;
    // Before its attributes, which may lead back to it.
    this.#made.set(call, object);
    const { state } = call;
    if (state instanceof Map)
      for (const [key, value] of state)
        if (typeof key === 'string')
          object.attributes.set(key, this.value(value, path === '' ? key : `${path}.${key}`));
    if (state !== null && !(state instanceof Map)) this.#setState?.(object, this.value(state, path));
    return object;
  }
}
