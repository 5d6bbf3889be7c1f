/**
 * Converts string operations: conversion between strings and numbers, joins, lower case and replacements. onnxruntime
 * writes floats with as few digits as needed, TensorFlow with six decimals.
 */
import { elementCount, type Tensor } from '../../../../lib/contract/tensor.ts';
import { ELEMENT_TYPES } from '../../../graph/attributes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, intAttribute, textAttribute, typeAttribute } from '../graph.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';
import { changeCase, concatenated, literalText, replaceAll, textConstant } from './texts.ts';

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

const stringJoin: Rule = (node, inputs, g) => {
  const separator = textAttribute(node, 'separator', '');
  const tensors = inputs.flatMap(({ constant }) => constant ?? []);
  if (tensors.length < inputs.length) {
    const between = separator === '' ? [] : [textConstant(g, separator)];
    return concatenated(
      g,
      inputs.flatMap((value, i) => (i === 0 ? [value] : [...between, value])),
      node.name,
    );
  }
  const shape = tensors.find((tensor) => tensor.shape.length > 0)?.shape ?? [];
  const joined = Array.from({ length: elementCount(shape) }, (_, i) =>
    tensors.map(({ data }) => String(data[data.length === 1 ? 0 : i])).join(separator),
  );
  return g.constant(textTensor(shape, joined), node.name);
};

function caseRule(action: 'LOWER' | 'UPPER'): Rule {
  return (node, [x], g) => {
    if (textAttribute(node, 'encoding', '') !== '')
      refuse(
        'of all alphabets is not supported: ONNX changes letters by the locale of the machine; leave the encoding out',
      );
    return changeCase(g, x, action, node.name);
  };
}

function replaceRule(constants: boolean): Rule {
  return (node, [x, pattern, rewrite], g) => {
    if (!flagAttribute(node, 'replace_global', true)) refuse('of the first match only is not supported');
    const [from, to] = constants
      ? [textAttribute(node, 'pattern'), textAttribute(node, 'rewrite')]
      : [literalText(pattern, 'pattern'), literalText(rewrite, 'rewrite')];
    return replaceAll(g, x, from, to, node.name);
  };
}

export const STRINGS: OpTable = {
  ...takes(1, {
    AsString: asString,
    StaticRegexReplace: replaceRule(true),
    StringJoin: stringJoin,
    StringLower: caseRule('LOWER'),
    StringToNumber: stringToNumber,
    StringUpper: caseRule('UPPER'),
  }),
  ...takes(3, { RegexReplace: replaceRule(false) }),
};
