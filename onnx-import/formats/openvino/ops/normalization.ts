/** Normalization, attention and fake quantization, as the formulas that define them. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { compute } from '../../../emit/formula.ts';
import {
  acrossChannels,
  batchNormalize,
  byRootMeanSquare,
  centered,
  type Guard,
  standardized,
  unitLength,
  withinPlane,
} from '../../../emit/normalize.ts';
import { BATCH } from '../../../graph/batch.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { isFloat, scalar } from './elementwise.ts';
import { matrixProduct } from './reduction.ts';
import { axesOf, reshapeKnown } from './shaping.ts';

const batchNorm: Rule = (node) => {
  // The first version has the data in the third place.
  const order = node.opset >= 5 ? [0, 1, 2, 3, 4] : [2, 0, 1, 3, 4];
  const [x, ...rest] = order.map((i) => node.input(i)) as [Value, ...Value[]];
  const [scale, shift, mean, variance] = rest as [Value, Value, Value, Value];
  return batchNormalize(node, x, { scale, shift, mean, variance, eps: node.number('epsilon', 1e-5) });
};

function withoutBatch(node: OvNode, x: Value, axes: readonly number[]): void {
  if (axes.some((axis) => known(x)[axis] === BATCH)) node.bindBatch();
}

export function meanVariance(
  node: OvNode,
  x: Value,
  axes: readonly number[],
  guard: Guard = 'inside',
): Value {
  withoutBatch(node, x, axes);
  const eps = node.number('eps', 1e-9);
  if (!node.flag('normalize_variance', true)) return centered(node, x, axes);
  return standardized(node, x, axes, eps, guard);
}

const mvn: Rule = (node) => {
  const x = node.input(0);
  const rank = known(x).length;
  if (node.inputs.length > 1) {
    const isInside = node.choice('eps_mode', ['inside_sqrt', 'outside_sqrt']) === 'inside_sqrt';
    return meanVariance(node, x, axesOf(node, 1, rank), isInside ? 'inside' : 'outside');
  }
  const listed = node.has('reduction_axes') ? node.numbers('reduction_axes') : undefined;
  const first = node.flag('across_channels', false) ? 1 : 2;
  const axes = listed ?? Array.from({ length: rank - first }, (_, i) => i + first);
  return meanVariance(node, x, axes);
};

const normalizeL2: Rule = (node) => {
  const x = node.input(0);
  const axes = axesOf(node, 1, known(x).length);
  const mode = node.choice('eps_mode', ['add', 'max']);
  return ofUnitLength(node, x, axes, node.number('eps'), mode === 'add' ? 'Add' : 'Max');
};

export function ofUnitLength(
  node: OvNode,
  x: Value,
  axes: readonly number[],
  eps: number,
  mode?: 'Add' | 'Max',
) {
  withoutBatch(node, x, axes);
  return unitLength(node, x, axes, eps, mode);
}

const lrn: Rule = (node) => {
  const x = node.input(0);
  const axes = axesOf(node, 1, known(x).length);
  const [alpha, beta, bias] = [node.number('alpha'), node.number('beta'), node.number('bias', 1)];
  const given = { size: node.whole('size'), alpha, beta, bias };
  if (bias !== 1) throw badModel(`bias ${bias} is not supported: OpenVINO's runtime computes with 1`);
  if (axes.length === 1 && axes[0] === 1) return acrossChannels(node, x, given);
  if (axes.some((axis) => axis < 2) || axes.length !== known(x).length - 2)
    throw badModel(`normalizes over the axes ${axes.join()}, only 1 or all axes of space are supported`);
  return withinPlane(node, x, given);
};

const groupNormalization: Rule = (node) => {
  const [x, scale, bias] = [node.input(0), node.input(1), node.input(2)];
  const shape = known(x);
  const groups = node.whole('num_groups');
  const channels = fixed(x, 1);
  if (groups < 1 || channels % groups !== 0) throw badModel(`has ${channels} channels in ${groups} groups`);
  const { g } = node;
  const rows = g.one('Reshape', [x, g.ints([0, groups, -1])]);
  const normal = standardized(node, rows, [2], node.number('epsilon'));
  const whole = reshapeKnown(node, normal, shape);
  const perChannel = (value: Value) =>
    g.one('Reshape', [value, g.ints([1, channels, ...shape.slice(2).map(() => 1)])]);
  return node.one('Add', [g.one('Mul', [whole, perChannel(scale)]), perChannel(bias)]);
};

const grn: Rule = (node) => {
  const x = node.input();
  return ofUnitLength(node, x, [1], node.number('bias'));
};

const rms: Rule = (node) => {
  const [x, weight] = [node.input(0), node.optional(1)];
  const normal = byRootMeanSquare(node, x, [-1], node.number('epsilon'));
  return weight ? node.one('Mul', [normal, weight]) : normal;
};

const MAX_LEVELS = 2 ** 24;

/** Numbers beyond the input's range become those of the output's range. */
const fakeQuantize: Rule = (node) => {
  const x = node.input(0);
  if (node.text('auto_broadcast', 'numpy').toLowerCase() === 'pdpd') throw badModel('broadcasts by pdpd');
  const levels = node.whole('levels');
  if (levels < 2 || levels > MAX_LEVELS) throw badModel(`has ${levels} levels`);
  const [low, high, from, to] = [1, 2, 3, 4].map((i) => node.input(i)) as [Value, Value, Value, Value];
  const [least, most] = [constantNumbers(low, 'input_low'), constantNumbers(high, 'input_high')];
  if (least.length === most.length && !least.every((value, i) => value < (most[i] as number)))
    throw badModel('has an input range without numbers');
  const place = 'Round((Min(Max(x, low), high) - low) * (steps / (high - low)))';
  const text = `${place} * ((to - from) / steps) + from`;
  return compute(node, text, { x, low, high, from, to, steps: levels - 1 });
};

const attention: Rule = (node) => {
  const [query, key, value] = [node.input(0), node.input(1), node.input(2)];
  const [mask, scale] = [node.optional(3), node.optional(4)];
  const { g } = node;
  const isCausal = node.flag('causal', false);
  const factor = scale ?? scalar(node, query, 1 / Math.sqrt(fixed(query, -1)));
  const scores = matrixProduct(node, g.one('Mul', [query, factor]), key, false, true);
  const hidden = isCausal ? causal(node, scores) : mask && masked(node, scores, mask);
  return matrixProduct(node, g.one('Softmax', [hidden ?? scores], { axis: -1 }), value, false, false);
};

function masked(node: OvNode, scores: Value, mask: Value): Value {
  if (isFloat(mask)) return node.g.one('Add', [scores, mask]);
  return node.g.one('Where', [cast(node, mask, 'bool'), scores, scalar(node, scores, -Infinity)]);
}

/** A row sees the columns up to its own. */
function causal(node: OvNode, scores: Value): Value {
  const { g } = node;
  const [rows, columns] = [fixed(scores, -2), fixed(scores, -1)];
  if (rows * columns > 2 ** 24) throw badModel(`has scores of ${formatShape(known(scores))}`);
  const data = Uint8Array.from({ length: rows * columns }, (_, i) =>
    i % columns <= Math.floor(i / columns) ? 1 : 0,
  );
  return masked(node, scores, g.constant({ dtype: 'bool', shape: [rows, columns], data }, 'causal'));
}

export const NORMALIZATIONS: OpTable = {
  BatchNormInference: batchNorm,
  FakeQuantize: fakeQuantize,
  GRN: grn,
  GroupNormalization: groupNormalization,
  LRN: lrn,
  MVN: mvn,
  NormalizeL2: normalizeL2,
  RMS: rms,
  ScaledDotProductAttention: attention,
};
