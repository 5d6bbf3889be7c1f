/** Nodes of ai.onnx.ml as they lie in a file, and the values that they are compared with. */
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { messageOf, numberOf, numbersOf, utf8TextsOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import { elementsOf } from '../elements.ts';
import type { RawNode } from './graph.ts';

export type Label = bigint | string;

/** What a node has to answer for some rows, in one list for each output. */
export interface Answer {
  readonly values: readonly (number | Label)[];
  /** How far rounding moves each number; Infinity where the specification leaves the answer open. Default: 0. */
  readonly allowed?: readonly number[];
}

/** The answers of a node's outputs, or the reason why the specification has none. */
export type Answers = readonly Answer[] | string;

/** Computes a node as the specification says. */
export type Evaluate = (node: RawNode, inputs: readonly Tensor[]) => Answers;

/** Half of the last place of a float32. */
export const ROUNDING = 2 ** -24;

/** An attribute as numbers: a list, or a tensor under the name with `_as_tensor`. */
export function numbersAt(node: RawNode, name: string): ArrayLike<number> {
  const tensor = node.attribute(`${name}_as_tensor`) ?? node.attribute(`${name}_tensor`);
  if (tensor) return tensorNumbers(messageOf(tensor, 'tensor') ?? {});
  const attribute = node.attribute(name);
  if (!attribute) return [];
  const own = messageOf(attribute, 'tensor');
  if (own) return tensorNumbers(own);
  const values = numbersOf(attribute, 'floats') ?? numbersOf(attribute, 'ints') ?? [];
  return values instanceof BigInt64Array ? Float64Array.from(values, Number) : (values as ArrayLike<number>);
}

/** What a list or a tensor of labels holds. */
export function labelsAt(node: RawNode, names: readonly string[]): readonly Label[] {
  for (const name of names) {
    const attribute = node.attribute(name);
    if (!attribute) continue;
    const texts = utf8TextsOf(attribute, 'texts');
    if (texts.length > 0) return texts;
    const ints = numbersOf(attribute, 'ints');
    if (ints instanceof BigInt64Array && ints.length > 0) return Array.from(ints);
    const tensor = messageOf(attribute, 'tensor');
    if (tensor && utf8TextsOf(tensor, 'texts').length > 0) return utf8TextsOf(tensor, 'texts');
    if (tensor && numberOf(tensor, 'type') === INT64) return tensorLongs(tensor);
  }
  return [];
}

export function floatAt(node: RawNode, name: string, fallback: number): number {
  const attribute = node.attribute(name);
  return attribute ? numberOf(attribute, 'float') : fallback;
}

export function intAt(node: RawNode, name: string, fallback: number): number {
  const attribute = node.attribute(name);
  return attribute ? numberOf(attribute, 'int') : fallback;
}

const [FLOAT, UINT8, INT64, DOUBLE] = [1, 2, 7, 11];

/** ONNX's number of the elements' type in a tensor attribute; 0 where there is none. */
export function typeAt(node: RawNode, name: string): number {
  const attribute = node.attribute(name);
  const tensor = attribute && messageOf(attribute, 'tensor');
  return tensor ? numberOf(tensor, 'type') : 0;
}

function tensorLongs(tensor: Message): bigint[] {
  return Array.from((elementsOf(tensor) ?? []) as ArrayLike<bigint>);
}

function tensorNumbers(tensor: Message): ArrayLike<number> {
  const type = numberOf(tensor, 'type');
  if (type === INT64) return tensorLongs(tensor).map(Number);
  return [FLOAT, UINT8, DOUBLE].includes(type) ? ((elementsOf(tensor) ?? []) as ArrayLike<number>) : [];
}

/** The rows of a table; a vector is one row. */
export function rowsOf({ shape, data }: Tensor): number[][] {
  const columns = shape.at(-1) ?? 0;
  const values = Array.from(data as ArrayLike<number | bigint>, Number);
  const rows = columns === 0 ? 0 : values.length / columns;
  return Array.from({ length: rows }, (_, row) => values.slice(row * columns, (row + 1) * columns));
}
