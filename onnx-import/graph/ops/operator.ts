/**
 * What is known of one ONNX operator: all that the builder of graphs, the converters and the proof of batching need is one
 * entry of a table in this folder.
 */
import type { DType, Tensor } from '../../../lib/contract/tensor.ts';
import type { RowRule } from '../rows/call.ts';
import type { ShapeRule } from '../rows/shape-node.ts';
import type { Attributes, Dim, Value } from '../value.ts';

/** The elements of a small tensor of integers (shape arithmetic); an undefined one is not known. */
export type Elements = readonly (Dim | undefined)[];
export type ElementRule = (
  inputs: readonly (Value | undefined)[],
  attributes: Attributes,
) => Elements | undefined;

/**
 * Computes a node whose inputs are constants.
 * @param shape that of its first output, where it can be known
 * @returns undefined where the node is left to the run
 */
export type Fold = (
  inputs: readonly (Tensor | undefined)[],
  attributes: Attributes,
  shape: () => readonly number[] | undefined,
) => readonly Tensor[] | undefined;

/** The dtype of an output: its name, or the input or the attribute that has it. */
export type Result =
  | DType
  | number
  | ((attributes: Attributes, inputs: readonly (Value | undefined)[]) => DType);

export interface Operator {
  /** Default: no shape is known. */
  readonly shapes?: ShapeRule;
  /** By output. Default: the dtype of the first input. */
  readonly results?: readonly Result[];
  readonly elements?: ElementRule;
  /** Default: only onnxruntime computes it, when it loads the model. */
  readonly fold?: Fold;
  /**
   * The dtypes that onnxruntime 1.30 has kernels for (test/onnx-import/tensorflow/ops/numbers.test.ts runs them). Default: it
   * moves elements of any dtype.
   */
  readonly dtypes?: readonly DType[];
  /** The inputs of such a dtype. Default: all. */
  readonly typed?: readonly number[];
  /** Where the rows of a batch go. Default: a node of constants is constant, any other ends the proof. */
  readonly rows?: RowRule;
  /** It draws numbers, one list for the whole run. */
  readonly isRandom?: true;
}

export type Operators = Readonly<Record<string, Operator>>;

/** The same entry for several operators. */
export function all(names: string, operator: Operator): Operators {
  return Object.fromEntries(names.split(' ').map((name) => [name, operator]));
}

export const FLOATS: readonly DType[] = ['float32', 'float64'];
export const WHOLE: readonly DType[] = ['int32', 'int64'];
export const WIDE: readonly DType[] = [...FLOATS, ...WHOLE];
export const SMALL: readonly DType[] = ['int8', 'uint8'];
export const UNSIGNED: readonly DType[] = ['uint32', 'uint64'];
export const NUMBERS: readonly DType[] = [...WIDE, ...SMALL, ...UNSIGNED, 'int16', 'uint16'];
