/**
 * Rewrites nodes of ai.onnx.ml that onnxruntime 1.30 answers wrongly whatever its optimization level, with standard operators
 * around the same node:
 * - labels of tree classifiers with two classes: with positive leaves only they are compared with 0.5 before the
 *   transform, and with scores of both classes they are 0 and 1 whatever the classes are called; labels of support vector
 *   classifiers of two classes without support vectors;
 * - `post_transform`: ignored by regressors with one target; SOFTMAX, SOFTMAX_ZERO and PROBIT ignored for a single score of
 *   two classes; LOGISTIC inexact for small probabilities;
 * - the scores of a linear classifier with one score, which are [1 - s, s] beside a label that is compared with 0;
 * - Normalizer("MAX"), which divides by the largest value instead of the largest magnitude.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { messageOf, numberOf, numbersOf, plainNumbersOf } from '../../wire/message.ts';
import { type Chunk, text } from '../chunk.ts';
import { replaceFields } from './fields.ts';
import { attributeName, type RawNode } from './graph.ts';
import { NewNodes } from './nodes.ts';
import { addTransform, isTransform, type Transform } from './transform.ts';

export const ML_DOMAIN = 'ai.onnx.ml';

export interface Mended {
  readonly chunks: readonly Chunk[];
  readonly note: string;
}

type Mend = (node: RawNode, content: Uint8Array, nodes: NewNodes) => string | undefined;

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

const [FLOAT32, BOOL, FLOAT64] = [1, 9, 11];

/** The node without a transform, with other names for its outputs. */
function plain(content: Uint8Array, outputs: readonly string[]): Chunk {
  let at = 0;
  return replaceFields(content, (item) => {
    if (item.number === 2) return [text(2, outputs[at++] ?? '')];
    return item.number === 5 && attributeName(item.content) === 'post_transform' ? [] : undefined;
  });
}

/** By the numbers that TreeEnsemble gives them. */
export const TRANSFORM_NAMES = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'] as const;

function transformOf(node: RawNode): Transform | undefined {
  const name = node.text('post_transform') || (TRANSFORM_NAMES[node.number('post_transform')] ?? '');
  return isTransform(name) ? name : undefined;
}

const NOTE = "by standard operators, because onnxruntime's own is wrong or inexact";

const regressor: Mend = (node, content, nodes) => {
  const transform = transformOf(node);
  if (!transform) return undefined;
  const raw = nodes.name();
  nodes.keep(plain(content, [raw]));
  addTransform(nodes, raw, transform, node.outputs[0] ?? '', isDouble(node) ? FLOAT64 : FLOAT32);
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

/** How a classifier's own scores, without a transform, become one for each class. */
interface Scores {
  /** Column 1 is the only score, of the second of two classes. */
  readonly isSingle: boolean;
  /** The classes, where the label has to be chosen anew. */
  readonly labels: Tensor | undefined;
}

function classifier(scoresOf: (node: RawNode, transform: Transform | undefined) => Scores | undefined): Mend {
  return (node, content, nodes) => {
    const transform = transformOf(node);
    const [label = '', output = ''] = node.outputs;
    const scores = scoresOf(node, transform);
    const isRight = !transform && !scores?.isSingle && (!scores?.labels || label === '');
    if (!scores || isRight) return undefined;
    const isPlain = !transform && !scores.isSingle && output !== '';
    const raw = isPlain ? output : nodes.name();
    nodes.keep(plain(content, [scores.labels || label === '' ? nodes.name() : label, raw]));
    const result = !transform && output !== '' ? output : nodes.name();
    const pair = scores.isSingle ? paired(nodes, raw, result) : raw;
    if (transform && output !== '') addTransform(nodes, pair, transform, output, FLOAT32);
    if (scores.labels && label !== '') {
      const place = nodes.add('ArgMax', [pair], { axis: 1, keepdims: 0 });
      const labels = nodes.add('Constant', [], { value: { tensor: scores.labels } });
      nodes.add('Gather', [labels, place], { axis: 0 }, label);
    }
    const what = [transform ?? (scores.isSingle ? 'its second score' : ''), scores.labels ? 'the label' : ''];
    return `${what.filter((part) => part !== '').join(' and ')} ${NOTE}`;
  };
}

/** [-s, s] */
function paired(nodes: NewNodes, raw: string, output: string): string {
  const score = nodes.add('Gather', [raw, nodes.places([1])], { axis: 1 });
  return nodes.add('Concat', [nodes.add('Neg', [score]), score], { axis: 1 }, output);
}

/** The classes of a classifier. */
function labelsOf(node: RawNode): Tensor | undefined {
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

function countOf(node: RawNode, name: string): number {
  const tensor = node.attribute(`${name}_as_tensor`);
  const dims = tensor && messageOf(tensor, 'tensor');
  const sizes = dims ? plainNumbersOf(dims, 'dims') : [];
  return dims ? sizes.reduce((product, size) => product * size, 1) : node.floats(name).length;
}

const treeScores = (node: RawNode, transform: Transform | undefined): Scores | undefined => {
  const labels = labelsOf(node);
  const count = labels?.data.length ?? 0;
  if (count < 2) {
    if (transform) throw refused(node, `${transform} of a single class has no meaning`);
    return undefined;
  }
  const ids = new Set(node.numbers('class_ids'));
  const isSingle = count === 2 && ids.size === 1;
  const isFirst = isSingle && ids.has(0);
  const bases = countOf(node, 'base_values');
  if (isSingle && bases > (isFirst ? 1 : 0)) {
    throw refused(node, `onnxruntime does not add its ${bases} base_values to the scores of one class`);
  }
  if (isFirst && transform === 'PROBIT') throw refused(node, 'PROBIT of a single score has no meaning');
  // Without a transform onnxruntime answers [1 - s, s] or [-s, s], and a label that fits.
  const isWrong = transform !== undefined || (count === 2 && !isFirst);
  return { isSingle: isFirst && transform !== undefined, labels: isWrong ? labels : undefined };
};

const linearScores = (node: RawNode, transform: Transform | undefined): Scores => {
  const isSingle = node.floats('intercepts').length === 1 && labelsOf(node)?.data.length === 2;
  if (isSingle && transform === 'PROBIT') throw refused(node, 'PROBIT of a single score has no meaning');
  return { isSingle, labels: undefined };
};

/** Of two classes without support vectors, onnxruntime answers the second one for any positive score. */
const vectorScores = (node: RawNode): Scores => {
  const labels = labelsOf(node);
  const isLinear = node.numbers('vectors_per_class').every((count) => count === 0);
  return { isSingle: false, labels: isLinear && labels?.data.length === 2 ? labels : undefined };
};

function titleOf({ operator, name, outputs }: RawNode): string {
  return `${operator} "${name || outputs[0]}"`;
}

function refused(node: RawNode, why: string) {
  return badModel(
    `${titleOf(node)}: ${why}; export the model with post_transform NONE and a score for each class`,
  );
}

const MENDS: Readonly<Record<string, Mend>> = {
  LinearClassifier: classifier(linearScores),
  LinearRegressor: regressor,
  Normalizer: normalizer,
  SVMClassifier: classifier(vectorScores),
  SVMRegressor: regressor,
  TreeEnsemble: regressor,
  TreeEnsembleClassifier: classifier(treeScores),
  TreeEnsembleRegressor: regressor,
};

/** Operators that may have to be mended. */
export const MENDED: readonly string[] = Object.keys(MENDS);
