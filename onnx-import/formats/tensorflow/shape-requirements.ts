/**
 * Derives the shape of an input that the file leaves open from its users, if they all agree: an image has the
 * channels of the weights, a row the length of the matrix. Only operations that keep the shape are followed; adding
 * two computed tensors may change it, and Reshape takes anything.
 */
import type { Dim, Shape } from '../../graph/value.ts';
import { type TfGraph, type TfInput, type TfNode, usersOf } from './graph.ts';

/** A size without a requirement. */
const FREE = -1;

/** The rank that these operations require at their first input, or at the input `at`. */
const RANKS: Readonly<Record<string, { readonly rank: number; readonly at?: number }>> = {
  AvgPool: { rank: 4 },
  AvgPool3D: { rank: 5 },
  Conv2D: { rank: 4 },
  Conv2DBackpropInput: { rank: 4, at: 2 },
  Conv3D: { rank: 5 },
  Conv3DBackpropInputV2: { rank: 5, at: 2 },
  CropAndResize: { rank: 4 },
  DepthToSpace: { rank: 4 },
  DepthwiseConv2dNative: { rank: 4 },
  FusedBatchNorm: { rank: 4 },
  FusedBatchNormV2: { rank: 4 },
  LRN: { rank: 4 },
  MatMul: { rank: 2 },
  MaxPool: { rank: 4 },
  MaxPool3D: { rank: 5 },
  MaxPoolV2: { rank: 4 },
  ResizeArea: { rank: 4 },
  ResizeBicubic: { rank: 4 },
  ResizeBilinear: { rank: 4 },
  ResizeNearestNeighbor: { rank: 4 },
  SpaceToDepth: { rank: 4 },
};

const KEEP_SHAPE = new Set(
  (
    'Abs BiasAdd Cast Elu Exp Identity LeakyRelu Log Neg PlaceholderWithDefault Relu Relu6 Rsqrt Selu Sigmoid Softplus ' +
    'Sqrt Square StopGradient Tanh'
  ).split(' '),
);
const KEEP_RANK = new Set(['BatchToSpaceND', 'MirrorPad', 'Pad', 'PadV2', 'SpaceToBatchND']);
/** These keep the rank if the other operand is a small constant, and the shape if that is a scalar. */
const BROADCASTS = new Set(['Add', 'AddV2', 'Div', 'Maximum', 'Minimum', 'Mul', 'RealDiv', 'Sub']);

/** Returns undefined when there are no requirements, or conflicting ones. */
export function demandedShape(tf: TfGraph, { name, tensor }: TfInput): Shape | undefined {
  let found: readonly number[] | undefined;
  const seen = new Set([tensor]);
  const open: { at: string; exact: boolean }[] = [{ at: tensor, exact: true }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { at, exact } = next;
    for (const node of usersOf(tf).get(at) ?? []) {
      const demand = demandOf(tf, node, at, exact);
      if (demand) {
        found = found ? agreed(found, demand) : demand;
        if (!found) return undefined;
      }
      const result = `${node.name}:0`;
      const kept = keeps(tf, node, at);
      if (!kept || seen.has(result)) continue;
      seen.add(result);
      open.push({ at: result, exact: exact && kept === 'shape' });
    }
  }
  return found?.map((size, axis): Dim => (axis === 0 ? 'N' : size === FREE ? `${name}_d${axis}` : size));
}

function agreed(a: readonly number[], b: readonly number[]): readonly number[] | undefined {
  if (a.length !== b.length) return undefined;
  if (a.some((size, i) => size !== FREE && b[i] !== FREE && size !== b[i])) return undefined;
  return a.map((size, i) => (size === FREE ? (b[i] as number) : size));
}

function demandOf(tf: TfGraph, node: TfNode, tensor: string, exact: boolean): readonly number[] | undefined {
  const demand = Object.hasOwn(RANKS, node.op) ? RANKS[node.op] : undefined;
  if (!demand || node.inputs[demand.at ?? 0] !== tensor) return undefined;
  const sizes = Array.from({ length: demand.rank }, () => FREE);
  return exact ? (withWeights(tf, node, sizes) ?? sizes) : sizes;
}

function withWeights(tf: TfGraph, node: TfNode, sizes: readonly number[]): readonly number[] | undefined {
  const weights = constantOf(tf, node.inputs[1])?.shape;
  if (!weights) return undefined;
  if (node.op === 'MatMul') {
    if (isTrue(node, 'transpose_a')) return undefined;
    return sizes.with(1, weights[isTrue(node, 'transpose_b') ? 1 : 0] ?? FREE);
  }
  if (!/^(Conv2D|Conv3D|DepthwiseConv2dNative)$/.test(node.op)) return undefined;
  const format = node.attributes.data_format;
  const first = format?.kind === 'string' && format.value.startsWith('NC');
  return sizes.with(first ? 1 : sizes.length - 1, weights[sizes.length - 2] ?? FREE);
}

function isTrue(node: TfNode, name: string): boolean {
  const attribute = node.attributes[name];
  return attribute?.kind === 'bool' && attribute.value;
}

/** Looks through the Identity that reads a variable. */
function constantOf(tf: TfGraph, tensor: string | undefined) {
  let at = tensor;
  for (let steps = 0; steps < 8 && at !== undefined; steps++) {
    const node = tf.nodes.get(at.slice(0, at.lastIndexOf(':')));
    if (node?.op === 'Const') {
      const { value } = node.attributes;
      return value?.kind === 'tensor' ? value.value : undefined;
    }
    at = node?.op === 'Identity' ? node.inputs[0] : undefined;
  }
  return undefined;
}

function keeps(tf: TfGraph, node: TfNode, tensor: string): 'shape' | 'rank' | undefined {
  if (KEEP_SHAPE.has(node.op)) return node.inputs[0] === tensor ? 'shape' : undefined;
  if (KEEP_RANK.has(node.op)) return node.inputs[0] === tensor ? 'rank' : undefined;
  if (!BROADCASTS.has(node.op)) return undefined;
  const other = node.inputs.find((input) => input !== tensor);
  if (other === undefined) return 'shape';
  const value = constantOf(tf, other);
  if (!value || value.shape.length > 1) return undefined;
  return value.data.length === 1 ? 'shape' : 'rank';
}
