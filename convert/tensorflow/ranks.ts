/**
 * In: an input of unknown rank. Out: the rank that its users demand, when all of them say the same.
 * Trap: only operations that keep the rank are followed; an addition of two computed tensors may change it.
 */
import type { TfGraph, TfNode } from './graph.ts';

/** What these take as an image has so many dimensions. By the position of the image among the inputs. */
const DEMANDS: Readonly<Record<string, { readonly rank: number; readonly at?: number }>> = {
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

const KEEPS = new Set(
  (
    'Abs BatchToSpaceND BiasAdd Cast Elu Exp Identity LeakyRelu Log MirrorPad Neg Pad PadV2 PlaceholderWithDefault Relu ' +
    'Relu6 Rsqrt Selu Sigmoid Softplus SpaceToBatchND Sqrt Square StopGradient Tanh'
  ).split(' '),
);
/** Keep it when the other operand is a small constant. */
const BROADCASTS = new Set(['Add', 'AddV2', 'Div', 'Maximum', 'Minimum', 'Mul', 'RealDiv', 'Sub']);

export function demandedRank(tf: TfGraph, tensor: string): number | undefined {
  const ranks = new Set<number>();
  const seen = new Set([tensor]);
  const open = [tensor];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const node of usersOf(tf).get(at) ?? []) {
      const demand = Object.hasOwn(DEMANDS, node.op) ? DEMANDS[node.op] : undefined;
      if (demand && node.inputs[demand.at ?? 0] === at) ranks.add(demand.rank);
      const result = `${node.name}:0`;
      if (!keepsRank(tf, node, at) || seen.has(result)) continue;
      seen.add(result);
      open.push(result);
    }
  }
  const [rank] = ranks;
  return ranks.size === 1 ? rank : undefined;
}

function keepsRank(tf: TfGraph, node: TfNode, tensor: string): boolean {
  if (KEEPS.has(node.op)) return node.inputs[0] === tensor;
  if (!BROADCASTS.has(node.op)) return false;
  const other = node.inputs.find((input) => input !== tensor);
  if (other === undefined) return true;
  const value = tf.nodes.get(other.slice(0, other.lastIndexOf(':')))?.attributes.value;
  return value?.kind === 'tensor' && value.value.shape.length <= 1;
}

const USERS = new WeakMap<TfGraph, Map<string, TfNode[]>>();

/** The nodes that take a tensor. */
export function usersOf(tf: TfGraph): Map<string, TfNode[]> {
  const known = USERS.get(tf);
  if (known) return known;
  const users = new Map<string, TfNode[]>();
  for (const node of tf.nodes.values())
    for (const input of new Set(node.inputs)) {
      const list = users.get(input);
      if (list) list.push(node);
      else users.set(input, [node]);
    }
  USERS.set(tf, users);
  return users;
}
