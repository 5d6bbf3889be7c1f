/**
 * Rewrites trees of ai.onnx.ml: their sums are exact, and transforms and labels are computed by standard operators. onnxruntime
 * 1.30 compares positive leaves of two classes with 0.5 before the transform, labels two classes that both have scores 0 and 1
 * whatever they are called, and ignores the transform of one target.
 */
import type { RawNode } from './graph.ts';
import { numbersAt } from './ml-node.ts';
import type { NewNodes } from './nodes.ts';
import { addLabel, labelsOf, type Mend, NOTE, transformOf } from './scores.ts';
import { exactSums, hasExactSums } from './sums.ts';
import { addTransform, FLOAT32, type Transform } from './transform.ts';

/** @param otherwise for nodes whose sums stay as they are */
export function treeRegressor(otherwise: Mend): Mend {
  return (node, content, nodes) => {
    if (hasExactSums(content)) return undefined;
    const outputs = node.number('n_targets') || 1;
    const base = Array.from(numbersAt(node, 'base_values'));
    const kind = node.text('aggregate_function') || 'SUM';
    const isWhole = [0, outputs].includes(base.length);
    if (!['SUM', 'AVERAGE'].includes(kind) || !isWhole) return otherwise(node, content, nodes);
    const trees = kind === 'AVERAGE' ? new Set(node.numbers('nodes_treeids')).size : 1;
    const scaled = base.map((value) => value * trees);
    const sums = exactSums(node, content, nodes, { outputs, base: scaled });
    if (sums === undefined) return otherwise(node, content, nodes);
    const mean = trees === 1 ? sums : nodes.add('Div', [sums, nodes.number(trees)]);
    const transform = transformOf(node);
    addTransform(nodes, mean, transform, { output: node.outputs[0] ?? '', dtype: FLOAT32 });
    return noteOf(transform, 'sums');
  };
}

function noteOf(transform: Transform | undefined, other: string): string {
  return `${transform ? `${other} and ${transform}` : other} ${NOTE}`;
}

/** @param otherwise for nodes whose sums stay as they are */
export function treeClassifier(otherwise: Mend): Mend {
  return (node, content, nodes) => {
    if (hasExactSums(content)) return undefined;
    const labels = labelsOf(node);
    const classes = labels?.data.length ?? 0;
    const base = Array.from(numbersAt(node, 'base_values'));
    const isSingle = isSingleScore(node, classes);
    const outputs = isSingle ? 1 : classes;
    const isWhole = [0, outputs].includes(base.length);
    if (!labels || classes < 2 || !isWhole) return otherwise(node, content, nodes);
    const transform = transformOf(node);
    if (isSingle && transform === 'PROBIT') return otherwise(node, content, nodes);
    const sums = exactSums(node, content, nodes, { outputs, base });
    if (sums === undefined) return otherwise(node, content, nodes);
    const scores = isSingle ? paired(nodes, sums, !transform && isPositive(node)) : sums;
    const [label = '', output = ''] = node.outputs;
    if (output !== '') addTransform(nodes, scores, transform, { output, dtype: FLOAT32 });
    if (label !== '') addLabel(nodes, scores, labels, label);
    return noteOf(transform, 'sums and labels');
  };
}

/** The score of the second of two classes is written as one of the first. */
export function isSingleScore(node: RawNode, classes: number): boolean {
  return classes === 2 && node.numbers('class_ids').every((id) => id === 0);
}

function isPositive(node: RawNode): boolean {
  return Array.from(numbersAt(node, 'class_weights')).every((weight) => weight >= 0);
}

/**
 * [-s, s], or of shares of votes [1 - s, s]. The specification does not say which; onnxruntime and the exporters tell them apart
 * by their sign.
 */
function paired(nodes: NewNodes, score: string, isShare: boolean): string {
  const other = isShare ? nodes.add('Sub', [nodes.number(1), score]) : nodes.add('Neg', [score]);
  return nodes.add('Concat', [other, score], { axis: 1 });
}
