/**
 * Converts the operations that TensorFlow's optimizer has fused: `fused_ops` with their extra inputs one after the
 * other. FusedBatchNorm takes four of these inputs, BiasAdd and Add one, activations none.
 */
import type { GraphBuilder } from '../../../graph/builder.ts';
import type { Value } from '../../../graph/value.ts';
import {
  flagAttribute,
  floatAttribute,
  intAttribute,
  listAttribute,
  type TfNode,
  textAttribute,
} from '../graph.ts';
import { Arithmetic } from './arithmetic.ts';
import { padImage } from './blocks.ts';
import { conv, depthwise } from './convolution.ts';
import { plainMatMul } from './matrix.ts';
import { biasAdd, fusedBatchNorm, normalize } from './normalization.ts';
import { refuse } from './refuse.ts';
import { resizeLinear } from './resize.ts';
import { type Context, type Operands, type OpTable, type Rule, takes } from './rule.ts';
import { channelsLast } from './windows.ts';

function afterwards(
  node: TfNode,
  start: Value,
  inputs: Operands,
  from: number,
  g: GraphBuilder,
  context: Context,
): Value {
  const on = new Arithmetic(g, context, node.name);
  const last = channelsLast(node);
  let at = from;
  const next = () => inputs[at++] ?? refuse('has too few inputs for its fused_ops');
  return listAttribute(node, 'fused_ops').strings.reduce<Value>((x, op) => {
    switch (op) {
      case 'BiasAdd':
        return biasAdd(on, x, next(), last);
      case 'Add':
        return on.one('Add', [x, next()]);
      case 'FusedBatchNorm': {
        const [scale, offset, mean, variance] = [next(), next(), next(), next()];
        const epsilon = floatAttribute(node, 'epsilon', 1e-4);
        return normalize(on, x, { scale, offset, mean, variance, epsilon }, last);
      }
      default:
        return activation(on, x, op, node);
    }
  }, start);
}

function activation(on: Arithmetic, x: Value, op: string, node: TfNode): Value {
  if (['Relu', 'Elu', 'Sigmoid', 'Tanh'].includes(op)) return on.one(op, [x]);
  if (op === 'Relu6') return on.one('Clip', [x, on.number(x, 0), on.number(x, 6)]);
  if (op !== 'LeakyRelu') return refuse(`is fused with ${op}, which is not supported`);
  return on.one(op, [x], { alpha: { float: floatAttribute(node, 'leakyrelu_alpha', 0.2) } });
}

/** A rule with two inputs, followed by the fused operations. */
function followed(rule: Rule): Rule {
  return (node, inputs, g, context) =>
    afterwards(node, rule(node, inputs, g, context) as Value, inputs, 2, g, context);
}

/** Inputs: x, paddings, filter. */
const paddedConv: Rule = (node, inputs, g, context) => {
  const [x, paddings, filter] = inputs;
  const padded = padImage(node, x, paddings, textAttribute(node, 'mode', 'REFLECT'), g, context);
  return conv(node, [padded, filter] as unknown as Operands, g, context);
};

/** Inputs: x, size, paddings, filter. */
const resizedConv: Rule = (node, inputs, g, context) => {
  const [x, size, paddings, filter] = inputs;
  const placing = { corners: flagAttribute(node, 'resize_align_corners', false), centers: false };
  const resized = resizeLinear(node, x, size, g, context.layouts, placing);
  return paddedConv(node, [resized, paddings, filter] as unknown as Operands, g, context);
};

/** Batch normalization, an optional addition and an activation. */
const batchNormEx: Rule = (node, inputs, g, context) => {
  const [y, ...moments] = fusedBatchNorm(node, inputs, g, context) as readonly Value[];
  const on = new Arithmetic(g, context, node.name);
  const side = intAttribute(node, 'num_side_inputs', 0) > 0 ? inputs[5] : undefined;
  const added = side ? on.one('Add', [y, side]) : (y as Value);
  const mode = textAttribute(node, 'activation_mode', 'Identity');
  return [mode === 'Identity' ? added : activation(on, added, mode, node), ...moments];
};

export const FUSED: OpTable = {
  ...takes(2, {
    _FusedConv2D: followed(conv),
    _FusedDepthwiseConv2dNative: followed(depthwise),
    _FusedMatMul: followed(plainMatMul),
  }),
  ...takes(3, { FusedPadConv2D: paddedConv }),
  ...takes(4, { FusedResizeAndPadConv2D: resizedConv }),
  ...takes(5, { _FusedBatchNormEx: batchNormEx }),
};
