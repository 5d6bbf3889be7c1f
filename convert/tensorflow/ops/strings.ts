/**
 * Converts string operations as far as opset 17 can: conversion between strings and numbers, and joins of constants.
 * onnxruntime writes floats with as few digits as needed, TensorFlow with six decimals.
 */
import { elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, intAttribute, textAttribute, typeAttribute } from '../graph.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

const stringToNumber: Rule = (node, [x], g) => {
  const dtype = typeAttribute(node, 'out_type', 'float32');
  if (typeof dtype !== 'string' || dtype === 'string') return refuse('gives numbers only');
  return g.one('Cast', [x], { to: ELEMENT_TYPES[dtype] }, node.name);
};

const asString: Rule = (node, [x], g) => {
  const plain = intAttribute(node, 'width', -1) < 0 && textAttribute(node, 'fill', '') === '';
  if (!plain || flagAttribute(node, 'scientific', false))
    refuse('is supported without a width, fill or format only');
  if (x.dtype === 'bool') {
    const [yes, no] = ['true', 'false'].map((text) => g.constant(textTensor([], [text]))) as [Value, Value];
    return g.one('Where', [x, yes, no], {}, node.name);
  }
  if (x.dtype.startsWith('float'))
    refuse('of floats is not supported: onnxruntime writes them with other digits');
  return g.one('Cast', [x], { to: ELEMENT_TYPES.string }, node.name);
};

function textTensor(shape: readonly number[], data: readonly string[]): Tensor {
  return { dtype: 'string', shape, data };
}

/** Joins constants; anything else needs opset 20. */
const stringJoin: Rule = (node, inputs, g) => {
  const tensors = inputs.map(
    ({ constant }) => constant ?? refuse('joins texts, which ONNX cannot before opset 20'),
  );
  const separator = textAttribute(node, 'separator', '');
  const shape = tensors.find((tensor) => tensor.shape.length > 0)?.shape ?? [];
  const joined = Array.from({ length: elementCount(shape) }, (_, i) =>
    tensors.map(({ data }) => String(data[data.length === 1 ? 0 : i])).join(separator),
  );
  return g.constant(textTensor(shape, joined), node.name);
};

export const STRINGS: OpTable = takes(1, {
  AsString: asString,
  StringJoin: stringJoin,
  StringToNumber: stringToNumber,
});
