/**
 * Rewrites nodes of ai.onnx.ml that onnxruntime 1.30 answers wrongly whatever its optimization level, with standard operators
 * around the same node:
 * - sums and labels of trees (trees.ts), and labels of support vector classifiers of two classes without support vectors;
 * - `post_transform`: ignored by regressors with one target; SOFTMAX, SOFTMAX_ZERO and PROBIT ignored for a single score of
 *   two classes; LOGISTIC inexact for small probabilities;
 * - the scores of a linear classifier with one score, which are [1 - s, s] beside a label that is compared with 0;
 * - Normalizer("MAX"), which divides by the largest value instead of the largest magnitude.
 */
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { type Chunk, text } from '../../wire/chunk.ts';
import { messageOf, numberOf } from '../../wire/message.ts';
import { replaceFields } from './fields.ts';
import { attributeName, type RawNode } from './graph.ts';
import { NewNodes } from './nodes.ts';
import { addLabel, labelsOf, type Mend, NOTE, refused, titleOf, transformOf } from './scores.ts';
import { addTransform, FLOAT32, FLOAT64, type Transform } from './transform.ts';
import { isSingleScore, treeClassifier, treeRegressor } from './trees.ts';

export const ML_DOMAIN = 'ai.onnx.ml';

export interface Mended {
  readonly chunks: readonly Chunk[];
  readonly note: string;
}

export interface Surroundings {
  /** Makes a name that no other value has. */
  readonly fresh: () => string;
  /** Of the standard operators. */
  readonly opset: number;
  readonly isUsed: (output: string) => boolean;
}

/** @throws bad_model for what has no right answer */
export function mendKernel(
  node: RawNode,
  content: Uint8Array,
  { fresh, opset, isUsed }: Surroundings,
): Mended | undefined {
  if (node.domain !== ML_DOMAIN || !Object.hasOwn(MENDS, node.operator)) return undefined;
  const nodes = new NewNodes(fresh, opset);
  const outputs = node.outputs.map((output) => (isUsed(output) ? output : ''));
  const note = MENDS[node.operator]?.({ ...node, outputs }, content, nodes);
  if (note === undefined) return undefined;
  return { chunks: nodes.chunks, note: `${titleOf(node)}: ${note}` };
}

const BOOL = 9;

/** The node without a transform, with other names for its outputs. */
function plain(content: Uint8Array, outputs: readonly string[]): Chunk {
  let at = 0;
  return replaceFields(content, (item) => {
    if (item.number === 2) return [text(2, outputs[at++] ?? '')];
    return item.number === 5 && attributeName(item.content) === 'post_transform' ? [] : undefined;
  });
}

const regressor: Mend = (node, content, nodes) => {
  const transform = transformOf(node);
  if (!transform) return undefined;
  const raw = nodes.name();
  nodes.keep(plain(content, [raw]));
  const dtype = isDouble(node) ? FLOAT64 : FLOAT32;
  addTransform(nodes, raw, transform, { output: node.outputs[0] ?? '', dtype });
  return `${transform} ${NOTE}`;
};

/** TreeEnsemble answers in the type of its splits; the other regressors answer in float32. */
function isDouble(node: RawNode): boolean {
  const splits = node.operator === 'TreeEnsemble' ? node.attribute('nodes_splits') : undefined;
  return numberOf((splits && messageOf(splits, 'tensor')) ?? {}, 'type') === FLOAT64;
}

const normalizer: Mend = (node, _content, nodes) => {
  if ((node.text('norm') || 'MAX') !== 'MAX') return undefined;
  const x = nodes.add('Cast', [node.inputs[0] ?? ''], { to: FLOAT32 });
  const size = nodes.rowMaximum(nodes.add('Abs', [x]));
  // A row of zeros stays: 1 is added to its size.
  const isZero = nodes.add('Not', [nodes.add('Cast', [size], { to: BOOL })]);
  const divisor = nodes.add('Add', [size, nodes.add('Cast', [isZero], { to: FLOAT32 })]);
  nodes.add('Div', [x, divisor], {}, node.outputs[0]);
  return `MAX ${NOTE}`;
};

/** @param labelsFor the classes, where the label has to be chosen anew. @throws bad_model */
function classifier(
  labelsFor: (node: RawNode, transform: Transform | undefined) => Tensor | undefined,
): Mend {
  return (node, content, nodes) => {
    const transform = transformOf(node);
    const [label = '', output = ''] = node.outputs;
    const labels = labelsFor(node, transform);
    if (!transform && (!labels || label === '')) return undefined;
    const raw = transform || output === '' ? nodes.name() : output;
    nodes.keep(plain(content, [labels || label === '' ? nodes.name() : label, raw]));
    if (transform && output !== '') addTransform(nodes, raw, transform, { output, dtype: FLOAT32 });
    if (labels && label !== '') addLabel(nodes, raw, labels, label);
    return `${[transform, labels && 'the label'].filter(Boolean).join(' and ')} ${NOTE}`;
  };
}

const treeLabels = (node: RawNode, transform: Transform | undefined): Tensor | undefined => {
  const labels = labelsOf(node);
  const count = labels?.data.length ?? 0;
  if (count < 2) {
    if (transform) throw refused(node, `${transform} of a single class has no meaning`);
    return undefined;
  }
  // Only those come here whose sums could not be made exact.
  if (transform && isSingleScore(node, count))
    throw refused(node, `${transform} of a single score with these base_values has no meaning`);
  return transform || (count === 2 && !isSingleScore(node, count)) ? labels : undefined;
};

/** A single score of two classes is that of a regressor: [-s, s], and a label that fits. */
const linearClassifier: Mend = (node, content, nodes) => {
  const labels = labelsOf(node);
  const intercepts = node.floats('intercepts');
  if (labels?.data.length !== 2 || intercepts.length !== 1) {
    return classifier(() => undefined)(node, content, nodes);
  }
  const transform = transformOf(node);
  if (transform === 'PROBIT') throw refused(node, 'PROBIT of a single score has no meaning');
  const coefficients = { floats: node.floats('coefficients') };
  const x = nodes.add('Cast', [node.inputs[0] ?? ''], { to: FLOAT32 });
  const score = nodes.add(`${ML_DOMAIN}:LinearRegressor`, [x], {
    coefficients,
    intercepts: { floats: intercepts },
  });
  const pair = nodes.add('Concat', [nodes.add('Neg', [score]), score], { axis: 1 });
  const [label = '', output = ''] = node.outputs;
  if (output !== '') addTransform(nodes, pair, transform, { output, dtype: FLOAT32 });
  if (label !== '') addLabel(nodes, pair, labels, label);
  return `${transform ?? 'its second score'} ${NOTE}`;
};

/** Of two classes without support vectors, onnxruntime answers the second one for any positive score. */
const vectorLabels = (node: RawNode): Tensor | undefined => {
  const labels = labelsOf(node);
  const isLinear = node.numbers('vectors_per_class').every((count) => count === 0);
  return isLinear && labels?.data.length === 2 ? labels : undefined;
};

const MENDS: Readonly<Record<string, Mend>> = {
  LinearClassifier: linearClassifier,
  LinearRegressor: regressor,
  Normalizer: normalizer,
  SVMClassifier: classifier(vectorLabels),
  SVMRegressor: regressor,
  TreeEnsemble: regressor,
  TreeEnsembleClassifier: treeClassifier(classifier(treeLabels)),
  TreeEnsembleRegressor: treeRegressor(regressor),
};

/** Operators that may have to be mended. */
export const MENDED: readonly string[] = Object.keys(MENDS);
