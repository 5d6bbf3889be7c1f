/**
 * Converts TensorFlow's fused recurrent cells, one step (LSTMBlockCell, GRUBlockCell) or a sequence (BlockLSTM, as a
 * Scan). One matrix holds the weights of all gates, in the order i, c, f, o in the first version and i, f, c, o in
 * the second.
 */
import { unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { fixed } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, floatAttribute, type TfNode } from '../graph.ts';
import { emit, int64 } from './kernels.ts';
import { type Operands, type OpTable, type Rule, takes } from './rule.ts';

interface LstmWeights {
  readonly w: Value;
  readonly bias: Value;
  /** Peephole weights from the cell to i, f and o. */
  readonly peepholes: readonly [Value, Value, Value] | undefined;
  readonly clip: number;
  readonly forgetBias: number;
  readonly order: 'icfo' | 'ifco';
}

interface LstmStep {
  readonly i: Value;
  readonly cs: Value;
  readonly f: Value;
  readonly o: Value;
  readonly ci: Value;
  readonly co: Value;
  readonly h: Value;
}

function lstmStep(g: GraphBuilder, x: Value, state: { cs: Value; h: Value }, weights: LstmWeights): LstmStep {
  const { dtype } = x;
  const joined = g.one('Concat', [x, state.h], { axis: 1 });
  const gates = g.one('Add', [emit(g, 'MatMul', [joined, weights.w]), weights.bias]);
  const parts = g.add('Split', [gates], { axis: 1 }, { outputs: 4 });
  const part = (name: string) => parts[weights.order.indexOf(name)] as Value;
  const peep = (gate: Value, cell: Value, which: 0 | 1 | 2) =>
    weights.peepholes ? g.one('Add', [gate, g.one('Mul', [cell, weights.peepholes[which]])]) : gate;
  const remembered =
    weights.forgetBias === 0 ? part('f') : g.one('Add', [part('f'), g.scalar(dtype, weights.forgetBias)]);
  const i = g.one('Sigmoid', [peep(part('i'), state.cs, 0)]);
  const f = g.one('Sigmoid', [peep(remembered, state.cs, 1)]);
  const ci = g.one('Tanh', [part('c')]);
  const free = g.one('Add', [g.one('Mul', [ci, i]), g.one('Mul', [state.cs, f])]);
  const cs =
    weights.clip > 0
      ? g.one('Clip', [free, g.scalar(dtype, -weights.clip), g.scalar(dtype, weights.clip)])
      : free;
  const o = g.one('Sigmoid', [peep(part('o'), cs, 2)]);
  const co = g.one('Tanh', [cs]);
  return { i, cs, f, o, ci, co, h: g.one('Mul', [co, o]) };
}

function outputsOf({ i, cs, f, o, ci, co, h }: LstmStep): Value[] {
  return [i, cs, f, o, ci, co, h];
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
  outputsOf(lstmStep(g, x, { cs, h }, weightsOf(node, weights as unknown as Operands, false)));

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
    const body = g.body();
    const state = { cs: body.input('cs', x.dtype, cs.shape), h: body.input('h', x.dtype, h.shape) };
    const row = body.input('x', x.dtype, x.shape?.slice(1));
    const step = lstmStep(body, row, state, weights);
    const outputs = outputsOf(step);
    for (const value of [step.cs, step.h, ...outputs]) body.output(`${node.name}:${g.fresh()}`, value);
    const rows = x.shape && cs.shape ? [...x.shape.slice(0, 2), fixed(weights.w, 1) / 4] : undefined;
    const results = [cs.shape, h.shape, ...outputs.map(() => rows)].map((shape) => ({
      dtype: x.dtype,
      shape,
    }));
    const made = g.add(
      'Scan',
      [cs, h, x],
      { body: { body: body.finish() }, num_scan_inputs: 1 },
      { outputs: results.length, results, hint: node.name },
    );
    return masked(g, made.slice(2), x, length);
  };
}

/** Returns r, u, c, h of one step. The reset gate is applied before the product with the state. */
const gruCell: Rule = (_node, [x, h, gatesWeights, candidateWeights, gatesBias, candidateBias], g) => {
  const joined = g.one('Concat', [x, h], { axis: 1 });
  const gates = g.one('Sigmoid', [g.one('Add', [emit(g, 'MatMul', [joined, gatesWeights]), gatesBias])]);
  const [r, u] = g.add('Split', [gates], { axis: 1 }, { outputs: 2 }) as [Value, Value];
  const kept = g.one('Concat', [x, g.one('Mul', [h, r])], { axis: 1 });
  const c = g.one('Tanh', [g.one('Add', [emit(g, 'MatMul', [kept, candidateWeights]), candidateBias])]);
  const old = g.one('Mul', [u, h]);
  const fresh = g.one('Mul', [g.one('Sub', [g.scalar(x.dtype, 1), u]), c]);
  return [r, u, c, g.one('Add', [old, fresh])];
};

export const RECURRENT: OpTable = {
  ...takes(6, { GRUBlockCell: gruCell }),
  ...takes(8, { LSTMBlockCell: lstmCell }),
  ...takes(9, { BlockLSTM: blockLstm(false), BlockLSTMV2: blockLstm(true) }),
};
