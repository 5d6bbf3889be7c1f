/** Pooling. */
import { badModel } from '../../../lib/contract/errors.ts';
import { adaptivePool, averagePool, maxPool } from '../../emit/pooling.ts';
import type { Windows } from '../../emit/windows.ts';
import { ELEMENT_TYPES } from '../../graph/attributes.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { axisOf, fixed, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';
import { padsOf, windowsOf } from './convolution.ts';
import { isFloat } from './elementwise.ts';

type Rounding = 'floor' | 'ceil' | 'ceil_torch';

/** PyTorch drops a window that starts beyond the input and the padding before it. */
export function rounded(windows: Windows, rounding: Rounding): Windows {
  return {
    ...windows,
    ceil: rounding !== 'floor',
    drops: rounding === 'ceil_torch' ? 'always' : undefined,
  };
}

function windowsOfPool(node: OvNode, x: Value): Windows {
  const rank = known(x).length - 2;
  const kernel = node.numbers('kernel');
  if (kernel.length !== rank)
    throw badModel(`has a kernel of ${kernel.slice(0, 10).join('x')} for ${rank} axes`);
  const windows = windowsOf(node, kernel, padsOf(node, rank));
  return rounded(windows, node.choice('rounding_type', ['floor', 'ceil', 'ceil_torch'], 'floor'));
}

const maxPooling: Rule = (node) => {
  const x = node.input();
  const windows = windowsOfPool(node, x);
  if (node.isTaken(1)) return withPositions(node, x, windows);
  node.ignore('axis', 'index_element_type');
  const [first] = maxima(node, x, windows, 1);
  return node.layer.outputs.length > 1
    ? [first as Value, unusedPositions(node, first as Value)]
    : [first as Value];
};

/** Nothing takes them. */
function unusedPositions(node: OvNode, value: Value): Value {
  return node.g.one('Cast', [value], {
    to: ELEMENT_TYPES[dtypeNamed(node.text('index_element_type', 'i64'))],
  });
}

export function maxima(node: OvNode, x: Value, windows: Windows, outputs: number): Value[] {
  if (!isFloat(x) && x.dtype !== 'int8' && x.dtype !== 'uint8')
    throw badModel(`pools ${x.dtype}, which is not supported`);
  return maxPool(node, x, windows, outputs);
}

/** Positions count from the axis `axis` on: ONNX's count through the whole tensor. */
function withPositions(node: OvNode, x: Value, windows: Windows): Value[] {
  const shape = known(x);
  const axis = axisOf(node.whole('axis', 0), shape.length);
  const [values, positions] = maxima(node, x, windows, 2) as [Value, Value];
  const size = shape.slice(axis).reduce<number>((all, _, i) => all * fixed(x, axis + i), 1);
  const own = axis === 0 ? positions : node.g.one('Mod', [positions, node.g.scalar('int64', size)]);
  return [values, cast(node, own, dtypeNamed(node.text('index_element_type', 'i64')))];
}

const avgPool: Rule = (node) => {
  const x = node.input();
  return averages(
    node,
    x,
    windowsOfPool(node, x),
    node.flag('exclude-pad', node.has('exclude_pad') ? node.flag('exclude_pad') : true),
  );
};

/** With padding a window is divided by its whole size, even where it reaches beyond; without, by its part within. */
export function averages(node: OvNode, x: Value, windows: Windows, excludesPads: boolean): Value {
  if (!isFloat(x)) throw badModel(`averages ${x.dtype}, which is not supported`);
  const { pads } = windows;
  const isPadded = typeof pads === 'string' || pads.some((pad) => pad > 0);
  return averagePool(node, x, windows, isPadded && !excludesPads ? 'whole' : 'inside');
}

const adaptive =
  (op: 'ReduceMean' | 'ReduceMax'): Rule =>
  (node) => {
    const x = node.input(0);
    const sizes = constantNumbers(node.input(1), 'output shape');
    const spatial = known(x).length - 2;
    if (sizes.length !== spatial) throw badModel(`has ${sizes.length} sizes for ${spatial} axes`);
    if (node.isTaken(1)) throw badModel('gives the positions of its maxima, which is not supported');
    node.ignore('index_element_type');
    const made = adaptivePool(node, x, op, sizes);
    return node.layer.outputs.length > 1 ? [made, unusedPositions(node, made)] : made;
  };

export const POOLINGS: OpTable = {
  AdaptiveAvgPool: adaptive('ReduceMean'),
  AdaptiveMaxPool: adaptive('ReduceMax'),
  AvgPool: avgPool,
  MaxPool: maxPooling,
};
