/** What the rewrites of classifiers and regressors share. */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { numbersOf } from '../../wire/message.ts';
import type { RawNode } from './graph.ts';
import type { NewNodes } from './nodes.ts';
import { isTransform, type Transform } from './transform.ts';

/** @returns what is said of the rewrite in the report; undefined when the node stays */
export type Mend = (node: RawNode, content: Uint8Array, nodes: NewNodes) => string | undefined;

export const NOTE = "by standard operators, because onnxruntime's own is wrong or inexact";

/** By the numbers that TreeEnsemble gives them. */
export const TRANSFORM_NAMES = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'] as const;

export function transformOf(node: RawNode): Transform | undefined {
  const name = node.text('post_transform') || (TRANSFORM_NAMES[node.number('post_transform')] ?? '');
  return isTransform(name) ? name : undefined;
}

/** The classes of a classifier. */
export function labelsOf(node: RawNode): Tensor | undefined {
  const texts = node.texts('classlabels_strings');
  if (texts.length > 0) return { dtype: 'string', shape: [texts.length], data: [...texts] };
  for (const name of ['classlabels_int64s', 'classlabels_ints']) {
    const attribute = node.attribute(name);
    const data = attribute && numbersOf(attribute, 'ints');
    if (data instanceof BigInt64Array && data.length > 0)
      return { dtype: 'int64', shape: [data.length], data };
  }
  return undefined;
}

/** The label of the largest of the scores, the first of equal ones. */
export function addLabel(nodes: NewNodes, scores: string, labels: Tensor, output: string): void {
  const place = nodes.add('ArgMax', [scores], { axis: 1, keepdims: 0 });
  nodes.add('Gather', [nodes.add('Constant', [], { value: { tensor: labels } }), place], { axis: 0 }, output);
}

export function titleOf({ operator, name, outputs }: RawNode): string {
  return `${operator} "${name || outputs.find((output) => output !== '')}"`;
}

export function refused(node: RawNode, why: string) {
  return badModel(
    `${titleOf(node)}: ${why}; export the model with post_transform NONE and a score for each class`,
  );
}
