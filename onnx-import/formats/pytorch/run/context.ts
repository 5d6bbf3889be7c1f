/** What a symbolic run shares: the graph under construction, its sizes and its notes. */
import type { DType } from '../../../../lib/contract/tensor.ts';
import { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import type { Attributes, Value } from '../../../graph/value.ts';
import { type Int, SizeBound, Sizes, subtract, textOf } from './sizes.ts';
import { TensorRef, type ViewStep } from './tensor.ts';
import { Float, isInt, kindOf, List, type Py, refuse, Scalar, Tuple } from './values.ts';

/** Bounds unrolled loops and calls, so that no file keeps the converter busy. */
const MAX_STEPS = 2_000_000;
const MAX_CALLS = 200;
const MAX_ITEMS = 1_000_000;

export class Context {
  readonly sizes = new Sizes();
  readonly notes = new Set<string>();
  /** Of a TorchScript archive, whose operators may have meant something else. */
  archiveVersion = Number.POSITIVE_INFINITY;
  readonly root = new GraphBuilder();
  #g = this.root;
  readonly #open: number[] = [0];
  #scopes = 0;
  #steps = 0;
  #calls = 0;
  readonly scopes: { readonly current: number; isOpen(scope: number): boolean };

  constructor() {
    const open = this.#open;
    this.scopes = {
      get current() {
        return open.at(-1) as number;
      },
      isOpen: (scope) => open.includes(scope),
    };
  }

  /** The graph, or the branch, that operations are added to. */
  get g(): GraphBuilder {
    return this.#g;
  }

  get isBranch(): boolean {
    return this.#open.length > 1;
  }

  step(): void {
    this.#steps += 1;
    if (this.#steps > MAX_STEPS) refuse(`the model's code takes over ${MAX_STEPS} steps`);
  }

  nested<T>(name: string, run: () => T): T {
    if (this.#calls >= MAX_CALLS) refuse(`${name} is nested over ${MAX_CALLS} calls`);
    this.#calls += 1;
    try {
      return run();
    } finally {
      this.#calls -= 1;
    }
  }

  /** Builds a branch: what `run` adds goes to a body of its own. */
  branch<T>(run: (body: GraphBuilder) => T): T {
    const outer = this.#g;
    this.#scopes += 1;
    this.#open.push(this.#scopes);
    this.#g = outer.body();
    this.sizes.enter();
    try {
      return run(this.#g);
    } finally {
      this.sizes.leave();
      this.#open.pop();
      this.#g = outer;
    }
  }

  one(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    if (BROADCASTING.has(op)) this.#assertFit(op, inputs, attributes);
    return this.#g.one(op, inputs, attributes);
  }

  /**
   * A free size next to a fixed one would only fit for that number. @throws SizeBound
   */
  #assertFit(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes): void {
    const shapes = inputs.flatMap((input) => (input?.shape ? [input.shape] : []));
    const rank = Math.max(...shapes.map(({ length }) => length));
    const skipped = op === 'MatMul' ? [1, 2] : op === 'Concat' ? [rank - Number(attributes.axis)] : [];
    for (let back = 1; back <= rank; back++) {
      if (skipped.includes(back)) continue;
      const dims = shapes
        .map((shape) => shape[shape.length - back] ?? 1)
        .filter((dim) => dim !== 1 || op === 'Concat');
      if (dims.some((dim) => typeof dim === 'string') && dims.some((dim) => typeof dim === 'number'))
        throw new SizeBound(`combines sizes ${[...new Set(dims)].join(' and ')}`);
    }
  }

  /** Sizes that must be equal, such as those that a product sums over. @throws SizeBound or bad_model */
  match(a: Int, b: Int, what: string): void {
    const difference = subtract(a, b);
    if (typeof difference !== 'number')
      throw new SizeBound(`combines ${textOf(a)} and ${textOf(b)} as ${what}`);
    if (difference !== 0) refuse(`combines ${textOf(a)} and ${textOf(b)} as ${what}`);
  }

  tensor(value: Value): TensorRef {
    return new TensorRef(this.scopes, value);
  }

  tuple(values: readonly Value[]): Tuple {
    return new Tuple(values.map((value) => this.tensor(value)));
  }

  list(items: readonly Py[]): List {
    if (items.length > MAX_ITEMS) refuse(`has a list of over ${MAX_ITEMS} items`);
    return new List([...items], this.scopes.current);
  }

  view(parent: TensorRef, step: ViewStep): TensorRef {
    return new TensorRef(this.scopes, { parent, step });
  }

  /** A whole number as a tensor of rank 0, whose content stays known. */
  known(size: Int): TensorRef {
    const made = new TensorRef(this.scopes, () => this.sizes.value(this.#g, size));
    made.known = size;
    return made;
  }

  sizeOf(value: Value, axis: number): Int {
    const { shape } = value;
    if (!shape) return refuse(`"${value.name}" has no known rank`);
    const at = axis < 0 ? axis + shape.length : axis;
    const dim = shape[at];
    if (dim === undefined) return refuse(`axis ${axis} is outside of ${shape.length} dimensions`);
    return this.sizes.of(dim, value, at);
  }

  shapeOf(value: Value): Int[] {
    return (value.shape ?? refuse(`"${value.name}" has no known rank`)).map((_, i) => this.sizeOf(value, i));
  }

  /** The value with these sizes as its shape, where inference did not find them. */
  shaped(value: Value, sizes: readonly Int[]): Value {
    return { ...value, shape: sizes.map((size) => this.sizes.dim(size)) };
  }

  cast(value: Value, dtype: DType): Value {
    return value.dtype === dtype
      ? value
      : this.one('Cast', [value], { to: ELEMENT[dtype] ?? refuse(`no ${dtype}`) });
  }

  /** A number, a size, a scalar or a tensor as a value of this type. */
  number(value: Py, dtype: DType): Value {
    if (value instanceof Scalar || value instanceof TensorRef) return this.cast(value.value, dtype);
    if (value instanceof Float) return this.#g.scalar(dtype, value.value);
    if (typeof value === 'boolean') return this.#g.scalar(dtype, value ? 1 : 0);
    if (typeof value === 'number') return this.#g.scalar(dtype, value);
    if (!isInt(value)) return refuse(`needs a number, got ${kindOf(value)}`);
    return this.cast(this.sizes.value(this.#g, value), dtype);
  }

  /** A size that must be a number: it is an attribute of ONNX. @throws SizeBound */
  fixed(size: Int, what: string): number {
    if (typeof size === 'number') return size;
    throw new SizeBound(`needs a fixed ${what}, which is ${size.name}`);
  }

  /** The content of a tensor as a Python number, as int(), float() and item() give it. */
  scalar(tensor: TensorRef, type: 'int' | 'float' | 'bool'): Py {
    if (tensor.known !== undefined && type === 'int') return tensor.known;
    const { value } = tensor;
    if (value.constant && value.constant.data.length === 1) {
      const [number] = constantNumbers(value, 'number') as [number];
      if (type === 'bool') return number !== 0;
      return type === 'int' ? Math.trunc(number) : new Float(number);
    }
    for (const size of this.shapeOf(value)) this.match(size, 1, 'the only element of a tensor');
    const flat = tensor.shape.length === 0 ? value : this.one('Reshape', [value, this.#g.ints([])]);
    return new Scalar(type, this.cast(flat, type === 'int' ? 'int64' : type === 'bool' ? 'bool' : 'float32'));
  }
}

const BROADCASTING = new Set(
  'Add Sub Mul Div Pow Mod Max Min And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual Where MatMul Concat'.split(
    ' ',
  ),
);

const ELEMENT: Readonly<Partial<Record<DType, number>>> = {
  float32: 1,
  uint8: 2,
  int8: 3,
  int16: 5,
  int32: 6,
  int64: 7,
  bool: 9,
  float64: 11,
};
