/**
 * Converts TensorFlow's fused recurrent cells, one step (LSTMBlockCell, GRUBlockCell) or a sequence (BlockLSTM, as a
 * Scan). One matrix holds the weights of all gates, in the order i, c, f, o in the first version and i, f, c, o in
 * the second.
 */
import { compute } from '../../../emit/formula.ts';
import { unsqueeze } from '../../../emit/gather.ts';
import { type LstmStep, lstmStep, scan } from '../../../emit/recurrent.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { fixed } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, floatAttribute, type TfNode } from '../graph.ts';
import { emit, int64, makerOf } from './kernels.ts';
import { type Operands, type OpTable, type Rule, takes } from './rule.ts';

interface LstmWeights extends LstmStep {
  readonly w: Value;
  readonly bias: Value;
}

function step(g: GraphBuilder, x: Value, cs: Value, h: Value, weights: LstmWeights): Value[] {
  const joined = g.one('Concat', [x, h], { axis: 1 });
  const sums = g.one('Add', [emit(g, 'MatMul', [joined, weights.w]), weights.bias]);
  const made = lstmStep(g, sums, cs, weights);
  return [made.i, made.cs, made.f, made.o, made.ci, made.co, made.h];
}

function weightsOf(node: TfNode, [w, wci, wcf, wco, bias]: Operands, second: boolean): LstmWeights {
  return {
    w,
    bias,
    peepholes: flagAttribute(node, 'use_peephole', false) ? [wci, wcf, wco] : undefined,
    clip: floatAttribute(node, 'cell_clip', second ? 0 : 3),
    forgetBias: second ? 0 : floatAttribute(node, 'forget_bias', 1),
    order: second ? 'ifco' : 'icfo',
  };
}

const lstmCell: Rule = (node, [x, cs, h, ...weights], g) =>
  step(g, x, cs, h, weightsOf(node, weights as unknown as Operands, false));

/** Steps after seq_len_max are 0. */
function masked(g: GraphBuilder, rows: readonly Value[], x: Value, length: Value): readonly Value[] {
  const steps = x.shape?.[0];
  const limit = length.elements?.[0];
  if (
    limit !== undefined &&
    (limit === steps || (typeof limit === 'number' && typeof steps === 'number' && limit >= steps))
  )
    return rows;
  const count = g.one('Squeeze', [g.one('Shape', [x], { start: 0, end: 1 }), g.ints([0])]);
  const numbers = g.one('Range', [g.scalar('int64', 0), count, g.scalar('int64', 1)]);
  const valid = unsqueeze(g, g.one('Less', [numbers, int64(g, length)]), [1, 2]);
  return rows.map((value) => emit(g, 'Where', [valid, value, g.scalar(value.dtype, 0)]));
}

function blockLstm(second: boolean): Rule {
  return (node, [length, x, cs, h, ...rest], g) => {
    const weights = weightsOf(node, rest as unknown as Operands, second);
    const rows = x.shape && cs.shape ? [...x.shape.slice(0, 2), fixed(weights.w, 1) / 4] : undefined;
    const run = (body: GraphBuilder, states: readonly Value[], [row]: readonly Value[]) => {
      const [cell, hidden] = states as [Value, Value];
      const outputs = step(body, row as Value, cell, hidden, weights);
      return [outputs[1] as Value, outputs[6] as Value, ...outputs];
    };
    const made = scan(makerOf(g, node.name), [cs, h], [x], run, rows);
    return masked(g, made.slice(2), x, length);
  };
}

/** Returns r, u, c, h of one step. The reset gate is applied before the product with the state. */
const gruCell: Rule = (_node, [x, h, gatesWeights, candidateWeights, gatesBias, candidateBias], g) => {
  const product = (parts: readonly Value[], weights: Value) =>
    emit(g, 'MatMul', [g.one('Concat', parts, { axis: 1 }), weights]);
  const gates = compute(g, 'Sigmoid(sum + bias)', { sum: product([x, h], gatesWeights), bias: gatesBias });
  const [r, u] = g.add('Split', [gates], { axis: 1 }, { outputs: 2 }) as [Value, Value];
  const sum = product([x, compute(g, 'h * r', { h, r })], candidateWeights);
  const c = compute(g, 'Tanh(sum + bias)', { sum, bias: candidateBias });
  return [r, u, c, compute(g, 'u * h + (1 - u) * c', { u, h, c })];
};

export const RECURRENT: OpTable = {
  ...takes(6, { GRUBlockCell: gruCell }),
  ...takes(8, { LSTMBlockCell: lstmCell }),
  ...takes(9, { BlockLSTM: blockLstm(false), BlockLSTMV2: blockLstm(true) }),
};
