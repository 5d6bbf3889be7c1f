/**
 * Folds random numbers where their range decides the result. Random operations in a served graph are mostly dropout
 * that keeps everything: floor(keep_prob + random) is always 1 for keep_prob 1, because random is below 1.
 */
import { elementCount, type Tensor } from '../../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { numbersOf } from '../../../graph/numbers.ts';
import type { Value } from '../../../graph/value.ts';
import { intAttribute, type TfNode, typeAttribute } from '../graph.ts';
import { int64 } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type Facts, type Operands, type OpTable, takes } from './rule.ts';

/** The value of a scalar constant. */
export function scalarOf(value: Value): number | undefined {
  const tensor: Tensor | undefined = value.constant;
  if (!tensor || tensor.shape.length > 0 || elementCount(tensor.shape) !== 1) return undefined;
  return numbersOf(tensor)?.[0];
}

const MOVES: Readonly<Record<'Add' | 'Sub' | 'Mul', (a: number, b: number) => number>> = {
  Add: (a, b) => a + b,
  Sub: (a, b) => a - b,
  Mul: (a, b) => a * b,
};

export function moveRange(op: 'Add' | 'Sub' | 'Mul', inputs: Operands, made: Value, facts: Facts): void {
  const swapped = op !== 'Sub' && !facts.ranges.has(inputs[0]);
  const [random, constant] = swapped ? [inputs[1], inputs[0]] : [inputs[0], inputs[1]];
  const range = facts.ranges.get(random);
  const by = scalarOf(constant);
  if (!range || by === undefined || (op === 'Mul' && by < 0)) return;
  const move = MOVES[op];
  facts.ranges.set(made, { ...range, low: move(range.low, by), high: move(range.high, by) });
}

/** The constant result of a Floor, if all numbers lie between the same two integers. */
export function floorOfRange(x: Value, g: GraphBuilder, facts: Facts): Value | undefined {
  const range = facts.ranges.get(x);
  if (!range || Math.floor(range.low) !== Math.ceil(range.high) - 1) return undefined;
  return g.one('Expand', [g.scalar(x.dtype, Math.floor(range.low)), range.shape]);
}

/** The result of `random >= constant`, if it is always or never true. */
export function rangeIsAtLeast([x, y]: Operands, g: GraphBuilder, facts: Facts): Value | undefined {
  const range = facts.ranges.get(x);
  const limit = scalarOf(y);
  if (!range || limit === undefined || (range.low < limit && limit < range.high)) return undefined;
  return g.one('Expand', [g.scalar('bool', range.low >= limit ? 1 : 0), range.shape]);
}

function drawn(op: 'RandomUniform' | 'RandomNormal') {
  return (node: TfNode, [shape]: Operands, g: GraphBuilder, context: Context): Value => {
    const dtype = typeAttribute(node, 'dtype', 'float32');
    if (dtype !== 'float32' && dtype !== 'float64') refuse('is supported for float32 and float64 only');
    const seed = intAttribute(node, 'seed', 0) || intAttribute(node, 'seed2', 0);
    const dims = int64(g, shape);
    const like = g.one('Expand', [g.scalar(dtype, 0), dims]);
    // RandomUniformLike also of a constant, so that the numbers are drawn in every run.
    const made = g.one(`${op}Like`, [like], seed === 0 ? {} : { seed: { float: seed } }, node.name);
    if (op === 'RandomUniform') context.facts.ranges.set(made, { low: 0, high: 1, shape: dims });
    return made;
  };
}

export const RANDOM: OpTable = takes(1, {
  RandomStandardNormal: drawn('RandomNormal'),
  RandomUniform: drawn('RandomUniform'),
});
