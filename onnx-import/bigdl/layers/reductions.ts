/** Modules that reduce one axis. */
import { reduce } from '../../emit/reduce.ts';
import type { Value } from '../../graph/value.ts';
import type { Call, Rule } from '../call.ts';

type Reduction = 'ReduceSum' | 'ReduceMean' | 'ReduceMax' | 'ReduceMin';

function reduced(call: Call, op: Reduction, value: Value, axis: number, isKept: boolean): Value {
  call.bindAt(axis, value);
  return reduce(call, op, value, [axis], isKept);
}

const sum =
  (isMean: boolean): Rule =>
  (call) => {
    const { module } = call;
    const axis = call.axis(module.int('dimension', 1), module.int('nInputDims', -1));
    const op = isMean || module.flag('sizeAverage') ? 'ReduceMean' : 'ReduceSum';
    const isKept = call.rank === 1 || !module.flag('squeeze', true);
    return reduced(call, op, call.input, axis, isKept);
  };

const extreme =
  (op: Reduction): Rule =>
  (call) => {
    const axis = call.axis(call.module.int('dim', 1), call.module.int('numInputDims', -1));
    return reduced(call, op, call.input, axis, call.rank === 1);
  };

export const REDUCTIONS: Readonly<Record<string, Rule>> = {
  Max: extreme('ReduceMax'),
  Mean: sum(true),
  Min: extreme('ReduceMin'),
  Sum: sum(false),
};
