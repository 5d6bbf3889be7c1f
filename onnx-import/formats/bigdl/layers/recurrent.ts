/**
 * Recurrent layers over [N, steps, ...]. The file holds each cell as a graph of modules, so one Scan serves all of
 * them: its body is the cell's graph. What a cell does to its input alone is done for all steps at once.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { scan } from '../../../emit/recurrent.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { known } from '../../../graph/shapes.ts';
import type { Dim, Shape, Value } from '../../../graph/value.ts';
import { type Activity, type Call, isTable, type Rule } from '../call.ts';
import type { Module } from '../module.ts';
import { together } from './containers.ts';

/** The attribute with the size of a cell's states, and how many it has. */
export const CELLS: Readonly<Record<string, readonly [size: string, states: number]>> = {
  'nn.ConvLSTMPeephole': ['outputSize', 2],
  'nn.ConvLSTMPeephole3D': ['outputSize', 2],
  'nn.GRU': ['outputSize', 1],
  'nn.LSTM': ['hiddenSize', 2],
  'nn.LSTMPeephole': ['hiddenSize', 2],
  'nn.RnnCell': ['hiddenSize', 1],
};

/** The constructor's arguments of a cell, which its graph of modules already contains. */
const IN_THE_GRAPH = ['inputSize', 'activation', 'innerActivation', 'isInputWithBias', 'isHiddenWithBias'];
const OF_CONVOLUTIONS = [
  'kernelI',
  'kernelC',
  'stride',
  'padding',
  'withPeephole',
  'cActivation',
  'cPadding',
];
const NORMS = [
  'bnorm',
  'bnormEps',
  'bnormMomentum',
  'bnormInitWeight',
  'bnormInitBias',
  'bnormInitGradWeight',
  'bnormInitGradBias',
  'bnormAffine',
];

function zeros(call: Call, like: Value, shape: Shape): Value {
  const { g } = call;
  const rows = g.one('Slice', [g.one('Shape', [like]), g.ints([0]), g.ints([1]), g.ints([0])]);
  const size = g.one('Concat', [rows, g.ints(shape.slice(1) as number[])], { axis: 0 });
  return call.shaped('Expand', [g.floats(new Float32Array(1), [1]), size], {}, shape);
}

interface Cell {
  readonly module: Module;
  readonly size: number;
  readonly states: number;
}

function cellOf(module: Module | undefined): Cell {
  const facts = module && Object.hasOwn(CELLS, module.type) ? CELLS[module.type] : undefined;
  if (!module || !facts) throw badModel(`runs a cell "${module?.type}", which is not supported`);
  const [name, states] = facts;
  const size = module.int(name);
  if (size < 1) throw badModel(`has states of ${size}`);
  module.ignore(...IN_THE_GRAPH, ...OF_CONVOLUTIONS, 'preTopology');
  if (module.number('p', 0) !== 0)
    throw badModel('has a cell with dropout, which BigDL applies at random even when the model is used');
  if (module.flag('includePreTopology'))
    throw badModel(`has its transformation of the input inside the cell`);
  const cell = module.module('cell');
  if (!cell) throw badModel('has no cell');
  module.assertRead();
  return { module: cell, size, states };
}

const recurrent: Rule = (call) => {
  const { module } = call;
  module.ignore(...NORMS);
  if (module.flag('maskZero')) throw badModel('has maskZero, which mixes the records of a batch');
  call.expectRank(3, 5, 6);
  call.bindAt(1);
  const cell = cellOf(module.module('topology'));
  const before = module.module('preTopology');
  const input = before ? call.value(before, call.input) : call.input;
  const rows = known(input)[0] as Dim;
  const state = [rows, cell.size, ...known(call.input).slice(3)];
  if (state.slice(1).some((dim) => typeof dim !== 'number'))
    throw badModel(`needs fixed sizes, got ${formatShape(known(call.input))}`);
  // Scan's own axis comes first.
  const turned = call.transpose(input, [
    1,
    0,
    ...known(input)
      .slice(2)
      .map((_, i) => i + 2),
  ]);
  const initial = zeros(call, input, state);
  const states = Array.from({ length: cell.states }, () => initial);
  const made = scan(call, states, [turned], (body, old, [now]) =>
    stepOf(call, cell, body, old, now as Value),
  );
  const all = made.at(-1) as Value;
  return call.transpose(all, [
    1,
    0,
    ...known(all)
      .slice(2)
      .map((_, i) => i + 2),
  ]);
};

/** The states after a step, then its output. */
function stepOf(
  call: Call,
  { module, states }: Cell,
  body: GraphBuilder,
  before: readonly Value[],
  now: Value,
): Value[] {
  const made = call.run(module, [now, states === 1 ? (before[0] as Value) : before], body);
  const [output, hidden] = isTable(made) ? made : [];
  const after = hidden !== undefined && isTable(hidden) ? hidden : [hidden];
  const isRight =
    output && !isTable(output) && after.length === states && after.every((value) => value && !isTable(value));
  if (!isRight) throw badModel('runs a cell whose outputs are not those of such a cell');
  const own = known(before[0] as Value);
  for (const value of after as Value[])
    if (known(value).join() !== own.join())
      throw badModel(
        `runs a cell that makes a state of ${formatShape(known(value))} from ${formatShape(own)}`,
      );
  return [...(after as Value[]), output];
}

/** Both directions: the file holds the whole as modules. */
const bidirectional: Rule = (call) => {
  const { module } = call;
  module.ignore('merge', 'isSplitInput', ...NORMS);
  const inner = module.module('birnn');
  if (!inner) throw badModel('has no modules');
  return call.run(inner, call.activity);
};

/** Runs a module on all steps of all records as one batch. */
const timeDistributed: Rule = (call) => {
  const layer = call.module.module('layer');
  if (!layer) throw badModel('has no module');
  const shape = known(call.input);
  if (shape.length < 3) throw badModel(`needs records, steps and features, got ${formatShape(shape)}`);
  const isMasked = call.module.flag('maskZero');
  const [rows, steps] = shape as [Dim, Dim];
  const all = together(call, [rows, steps]);
  const made: Activity = call.value(layer, call.reshape(call.input, [all, ...shape.slice(2)]));
  if (known(made)[0] !== all) throw badModel(`its module makes ${formatShape(known(made))} of ${all} steps`);
  const apart = call.reshape(made, [rows, steps, ...known(made).slice(1)]);
  if (!isMasked) return apart;
  call.expectRank(3);
  const largest = call.one('ReduceMax', [call.one('Abs', [call.input])], { axes: [2], keepdims: 1 });
  return call.one('Where', [call.one('Equal', [largest, call.scalar(0)]), call.scalar(0), apart]);
};

export const RECURRENCES: Readonly<Record<string, Rule>> = {
  BiRecurrent: bidirectional,
  Recurrent: recurrent,
  TimeDistributed: timeDistributed,
};
