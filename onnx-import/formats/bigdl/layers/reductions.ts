/** Modules that reduce one axis. */
import type { Value } from '../../../graph/value.ts';
import type { Call, Rule } from '../call.ts';

type Reduction = 'ReduceSum' | 'ReduceMean' | 'ReduceMax' | 'ReduceMin';

function reduced(call: Call, op: Reduction, value: Value, axis: number, keepdims: number): Value {
  call.bindAt(axis, value);
  return op === 'ReduceSum'
    ? call.one(op, [value, call.g.ints([axis])], { keepdims })
    : call.one(op, [value], { axes: [axis], keepdims });
}

const sum =
  (isMean: boolean): Rule =>
  (call) => {
    const { module } = call;
    const axis = call.axis(module.int('dimension', 1), module.int('nInputDims', -1));
    const op = isMean || module.flag('sizeAverage') ? 'ReduceMean' : 'ReduceSum';
    const isKept = call.rank === 1 || !module.flag('squeeze', true);
    return reduced(call, op, call.input, axis, isKept ? 1 : 0);
  };

const extreme =
  (op: Reduction): Rule =>
  (call) => {
    const axis = call.axis(call.module.int('dim', 1), call.module.int('numInputDims', -1));
    return reduced(call, op, call.input, axis, call.rank === 1 ? 1 : 0);
  };

export const REDUCTIONS: Readonly<Record<string, Rule>> = {
  Max: extreme('ReduceMax'),
  Mean: sum(true),
  Min: extreme('ReduceMin'),
  Sum: sum(false),
};
