/**
 * Reshaping, axes and sizes for sources that write whole shapes including the batch (Caffe, BigDL), while a free
 * batch has to stay free.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { AddOptions, GraphBuilder } from './builder.ts';
import { tensorOf } from './numbers.ts';
import { axisOf, known, product } from './shapes.ts';
import type { Attributes, Dim, Shape, Value } from './value.ts';

/** The part of a node of the source that adds to the graph. */
export interface Maker {
  readonly g: GraphBuilder;
  /** The name prefix of its values. */
  readonly hint?: string;
  /** An operation whose result is named after the node, with what the source needs around it. */
  one(op: string, inputs: readonly (Value | undefined)[], attributes?: Attributes): Value;
  /** The same with several outputs. Default: the operation as it is. */
  several?(
    op: string,
    inputs: readonly (Value | undefined)[],
    attributes: Attributes,
    options: AddOptions,
  ): Value[];
}

/** An operation with several outputs. */
export function several(
  node: Maker,
  op: string,
  inputs: readonly (Value | undefined)[],
  attributes: Attributes,
  outputs: number,
): Value[] {
  const options = { outputs, ...named(node) };
  return node.several?.(op, inputs, attributes, options) ?? node.g.add(op, inputs, attributes, options);
}

export function named({ hint }: Maker): { hint?: string } {
  return hint === undefined ? {} : { hint };
}

/** Resolves an axis; negative axes count from the end. */
export function axisIn(value: Value, axis: number): number {
  return axisOf(axis, known(value).length);
}

/** The product of some dimensions. @throws bad_model when one of them is free */
export function fixedProduct(value: Value, from: number, to?: number): number {
  const size = product(known(value).slice(from, to));
  if (typeof size === 'number') return size;
  throw badModel(
    `needs fixed sizes from axis ${from} on, the input is ${formatShape(known(value))}; give them with --input`,
  );
}

/** The height and width of an N,C,H,W value. */
export function planeOf(value: Value): readonly [number, number] {
  expectRank(value, 4);
  return [fixedProduct(value, 2, 3), fixedProduct(value, 3, 4)];
}

/** Shortens a list for an error message. */
export function brief(values: readonly number[]): string {
  const shown = values.slice(0, 10).join(', ');
  return values.length > 10 ? `${shown}... (${values.length} numbers)` : shown;
}

/** Whether two sizes can be equal; a free size can be any. */
export function canEqual(a: Dim | undefined, b: Dim | undefined): boolean {
  return a === b || typeof a === 'string' || typeof b === 'string';
}

export function expectRank(value: Value, rank: number): void {
  if (known(value).length !== rank)
    throw badModel(`needs an input of rank ${rank}, got ${formatShape(known(value))}`);
}

/** `value` with another shape; free dimensions of `shape` are those of the value. */
export function reshape(node: Maker, value: Value, shape: Shape): Value {
  const own = known(value);
  if (own.length === shape.length && own.every((dim, i) => dim === shape[i])) return value;
  let inferred = false;
  const target = shape.map((dim, i): number | string => {
    if (typeof dim === 'number') return dim;
    if (own[i] === dim) return 0;
    if (inferred) return dim;
    inferred = true;
    return -1;
  });
  const results = [{ dtype: value.dtype, shape }];
  const to = target.every((dim) => typeof dim === 'number')
    ? node.g.ints(target)
    : node.g.one(
        'Concat',
        target.map((dim) => (typeof dim === 'number' ? node.g.ints([dim]) : sizeOf(node, value, dim))),
        { axis: 0 },
      );
  return node.g.add('Reshape', [value, to], {}, { ...named(node), results })[0] as Value;
}

/** A free dimension of `value`, as a list with one element. */
function sizeOf(node: Maker, value: Value, dim: string): Value {
  const axis = known(value).indexOf(dim);
  if (axis < 0) throw badModel(`cannot tell the size ${dim} from ${formatShape(known(value))}`);
  return node.g.one('Gather', [node.g.one('Shape', [value]), node.g.ints([axis])]);
}

/** Merges the dimensions `from` to `to`. A product without a name becomes a new free dimension. */
export function merged(node: Maker, value: Value, from: number, to: number): Shape {
  const shape = known(value);
  return [...shape.slice(0, from), product(shape.slice(from, to)) ?? node.g.fresh(), ...shape.slice(to)];
}

/** The shape with which a list broadcasts from `axis` on: [C] at 1 of N,C,H,W is [C,1,1]. */
export function alongAxis(shape: readonly number[], axis: number, rank: number): number[] {
  return [...shape, ...Array.from({ length: rank - axis - shape.length }, () => 1)];
}

/** A float constant of rank 0. */
export function scalar(node: Maker, value: number): Value {
  return node.g.constant(tensorOf('float32', [], [value]), 'scalar');
}
