/**
 * Converts classification losses and their gradients, from scores per row and either class weights or class numbers.
 * `Sparse` in an operation's name means that a class is a number; no tensor is sparse.
 */
import { squeeze, unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { cast, emit, int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

function checkRank(scores: Value): void {
  if (rank(scores) !== 2) refuse(`needs rows of scores, got ${rank(scores)} dimensions`);
}

/** Loss and gradient. An unused one is dropped from the graph. */
const byNumber: Rule = (node, [scores, classes], g) => {
  checkRank(scores);
  const at = unsqueeze(g, int64(g, classes), [1]);
  const own = g.one('GatherElements', [emit(g, 'LogSoftmax', [scores], { axis: 1 }), at], { axis: 1 });
  const loss = emit(g, 'Neg', [squeeze(g, own, [1])], {}, node.name);
  return [loss, derivative(scores, oneHot(scores, at, g), g)];
};

const byWeights: Rule = (node, [scores, classes], g) => {
  checkRank(scores);
  checkRank(classes);
  const weighted = emit(g, 'Mul', [emit(g, 'LogSoftmax', [scores], { axis: 1 }), classes]);
  const sum = emit(g, 'ReduceSum', [weighted, g.ints([1])], { keepdims: 0 });
  return [emit(g, 'Neg', [sum], {}, node.name), derivative(scores, classes, g)];
};

function oneHot(scores: Value, at: Value, g: GraphBuilder): Value {
  const count = g.one('Squeeze', [g.one('Shape', [scores], { start: 1, end: 2 }), g.ints([0])]);
  const numbers = g.one('Range', [g.scalar('int64', 0), count, g.scalar('int64', 1)]);
  return cast(g, g.one('Equal', [at, numbers]), scores.dtype);
}

function derivative(scores: Value, classes: Value, g: GraphBuilder): Value {
  return emit(g, 'Sub', [emit(g, 'Softmax', [scores], { axis: 1 }), classes]);
}

export const LOSSES: OpTable = takes(2, {
  SoftmaxCrossEntropyWithLogits: byWeights,
  SparseSoftmaxCrossEntropyWithLogits: byNumber,
});
