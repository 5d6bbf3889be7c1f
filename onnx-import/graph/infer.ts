/**
 * What can be known of a node while a graph is built: its result, if its inputs are constants; else the dtype and shape of its
 * outputs, and the elements of small integer tensors. Converters build on the shapes, so an uncertain size becomes a new free
 * dimension.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape, type Tensor } from '../../lib/contract/tensor.ts';
import { int, ints } from './attributes.ts';
import { holds, numbersOf } from './numbers.ts';
import type { Elements, Result } from './ops/operator.ts';
import { operatorOf } from './ops/table.ts';
import type { ShapeNode } from './rows/shape-node.ts';
import { type Size, type Shape as Sizes, size } from './rows/size.ts';
import { axisOf, type Fresh } from './shapes.ts';
import type { Attributes, Dim, Value, ValueType } from './value.ts';

/** Limits the tracked elements; a shape has one per dimension. */
const MAX_ELEMENTS = 64;
/** The operator set that graphs are built for. */
const OPSET = 17;

type Inputs = readonly (Value | undefined)[];

const sizeOf = (dim: Dim): Size => (typeof dim === 'number' ? size(dim) : { factor: 1, names: [dim] });

/** A number or the name of a free size; undefined for products of them. */
function dimOf({ factor, names }: Size): Dim | undefined {
  const [name, ...others] = names;
  if (name === undefined) return factor;
  return factor === 1 && others.length === 0 ? name : undefined;
}

function shapeNodeOf(inputs: Inputs, attributes: Attributes, outputs: number, fresh: Fresh): ShapeNode {
  return {
    count: inputs.length,
    outputs,
    opset: OPSET,
    has: (index) => inputs[index] !== undefined,
    shapeAt: (index) => inputs[index]?.shape?.map(sizeOf),
    listAt: (index) => {
      const value = inputs[index];
      const elements = value && (value.elements ?? elementsOf(value));
      return elements?.map((element) => (element === undefined ? undefined : sizeOf(element)));
    },
    constantAt: (index) => {
      const constant = inputs[index]?.constant;
      const numbers = constant && numbersOf(constant);
      return numbers && Array.from(numbers);
    },
    int: (name, fallback) => int(attributes[name], fallback),
    ints: (name) => ints(attributes[name]),
    text: (name, fallback) => {
      const text = attributes[name];
      return typeof text === 'string' ? text : fallback;
    },
    axis: axisOf,
    dim: () => sizeOf(fresh()),
    mismatch: (a, b) => {
      throw badModel(`${format(a)} and ${format(b)} do not broadcast`);
    },
  };
}

function format(shape: Sizes): string {
  return formatShape(shape.map((dim) => dimOf(dim) ?? dim.names.join('·')));
}

/** @throws bad_model when the shapes are impossible for the operation */
export function inferNode(
  op: string,
  inputs: Inputs,
  attributes: Attributes,
  outputs: number,
  fresh: Fresh,
): readonly ValueType[] {
  const { shapes, results = [] } = operatorOf(op) ?? {};
  const inferred = shapes?.(shapeNodeOf(inputs, attributes, outputs, fresh)) ?? [];
  const dtype = inputs.find((input) => input)?.dtype ?? 'float32';
  const typeOf = (result: Result = 0) => {
    if (typeof result === 'function') return result(attributes, inputs);
    return typeof result === 'number' ? (inputs[result]?.dtype ?? dtype) : result;
  };
  return Array.from({ length: outputs }, (_, i) => ({
    dtype: typeOf(results[i]),
    shape: inferred[i]?.map((dim) => dimOf(dim) ?? fresh()),
  }));
}

/** The outputs of a node whose inputs are all constants; undefined when it is left to the run. */
export function foldNode(op: string, inputs: Inputs, attributes: Attributes): readonly Tensor[] | undefined {
  const { fold, shapes } = operatorOf(op) ?? {};
  if (!fold || !inputs[0]) return undefined;
  const tensors: (Tensor | undefined)[] = [];
  for (const input of inputs) {
    if (input && !input.constant) return undefined;
    tensors.push(input?.constant);
  }
  return fold(tensors, attributes, () => {
    const [shape] = shapes?.(shapeNodeOf(inputs, attributes, 1, () => '')) ?? [];
    const numbers = shape?.map(dimOf);
    const isKnown = (dim: Dim | undefined): dim is number => Number.isSafeInteger(dim) && Number(dim) >= 0;
    return numbers?.every(isKnown) ? numbers : undefined;
  });
}

/** The elements of a constant, or of the result of `op`. */
export function elementsOf(
  value: Pick<Value, 'dtype' | 'shape' | 'constant'>,
  op?: string,
  inputs: Inputs = [],
  attributes: Attributes = {},
): Elements | undefined {
  const { dtype, shape, constant } = value;
  if (dtype !== 'int32' && dtype !== 'int64') return undefined;
  if (shape === undefined || shape.length > 1) return undefined;
  if (constant) {
    const numbers = constant.data.length <= MAX_ELEMENTS ? numbersOf(constant) : undefined;
    return numbers && Array.from(numbers);
  }
  const elements = op === undefined ? undefined : operatorOf(op)?.elements?.(inputs, attributes);
  const length = shape.length === 0 ? 1 : shape[0];
  if (!elements || elements.length !== length || elements.length > MAX_ELEMENTS) return undefined;
  // A number that wraps in the run is not known.
  return elements.map((element) =>
    typeof element === 'number' && !(Number.isSafeInteger(element) && holds(dtype, element))
      ? undefined
      : element,
  );
}
