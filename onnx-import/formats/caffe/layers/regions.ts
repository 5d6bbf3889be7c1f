/**
 * Faster R-CNN and R-FCN: ROIPooling, PSROIPooling and Proposal, for a batch of one image. Box coordinates are
 * inclusive: a width is x2 - x1 + 1, also in overlaps.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { compute, FORMULAS } from '../../../emit/formula.ts';
import { cutAlong } from '../../../emit/gather.ts';
import { expectRank, planeOf, reshape, scalar } from '../../../graph/layout.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Dim, Value } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';

const MAX_ANCHOR_NUMBERS = 16_000_000;

/** [R, 5] of image, x1, y1, x2, y2. */
function regionsOf(node: LayerNode): Value {
  const value = node.input(1);
  return reshape(node, value, [known(value)[0] as Dim, 5]);
}

const regionPooling: ConvertLayer = (node) => {
  node.bindBatch();
  const parameters = node.parameters('roi_pooling_param');
  const shape = [parameters.number('pooled_h'), parameters.number('pooled_w')];
  if (!shape.every((size) => size >= 1))
    throw badModel(`pooled size must be at least 1, got ${shape.join('x')}`);
  expectRank(node.input(), 4);
  return node.one('MaxRoiPool', [node.input(), regionsOf(node)], {
    pooled_shape: shape,
    spatial_scale: { float: parameters.number('spatial_scale', 1) },
  });
};

/** Column `at` of [R, n] as [R, 1]. */
function column(node: LayerNode, value: Value, at: number): Value {
  return cutAlong(node, value, 1, at, at + 1);
}

/** Half of four columns. */
function corner(node: LayerNode, value: Value, from: number): Value {
  return cutAlong(node, value, 1, from, from + 2);
}

/**
 * Which rows (or columns) of the plane each bin of each region covers, as 0 and 1: [bins, R, size]. As in Caffe, bins
 * may overlap by one and may be empty.
 */
function binMasks(
  node: LayerNode,
  ends: readonly [Value, Value],
  { bins, size, scale }: { bins: number; size: number; scale: number },
): Value {
  const { g } = node;
  const [first, last] = ends.map((x) => compute(node, FORMULAS.halfUp, { x })) as [Value, Value];
  const start = compute(node, 'first * scale', { first, scale });
  const step = compute(node, 'Max((last + 1) * scale - start, 0.1) * share', {
    last,
    scale,
    start,
    share: 1 / bins,
  });
  const numbers = Array.from({ length: bins }, (_, i) => i);
  const bound = (shift: number, op: string) => {
    const index = g.floats(
      numbers.map((i) => i + shift),
      [bins, 1, 1],
    );
    return compute(node, `${op}(index * step + start)`, { index, step, start });
  };
  const pixels = g.floats(
    Array.from({ length: size }, (_, i) => i),
    [1, 1, size],
  );
  const inside = compute(node, 'And(pixels >= from, pixels < to)', {
    pixels,
    from: bound(0, 'Floor'),
    to: bound(1, 'Ceil'),
  });
  return node.one('Cast', [inside], { to: 1 });
}

/** Averages each bin over its own channels. */
const positionSensitive: ConvertLayer = (node) => {
  node.bindBatch();
  const { g } = node;
  const parameters = node.parameters('psroi_pooling_param');
  const [bins, outputs] = [parameters.number('group_size'), parameters.number('output_dim')];
  const scale = parameters.number('spatial_scale', 1);
  const input = node.input();
  const [height, width] = planeOf(input);
  if (bins < 1 || outputs < 1 || fixed(input, 1) !== outputs * bins ** 2 || fixed(input, 0) !== 1)
    throw badModel(
      `needs one image with ${outputs} x ${bins} x ${bins} channels, got [${known(input).join(',')}]`,
    );
  const regions = regionsOf(node);
  const rows = binMasks(node, [column(node, regions, 2), column(node, regions, 4)], {
    bins,
    size: height,
    scale,
  });
  const columns = binMasks(node, [column(node, regions, 1), column(node, regions, 3)], {
    bins,
    size: width,
    scale,
  });
  const maps = reshape(node, input, [outputs, bins, bins, height, width]);
  // [o,bh,bw,H,W] x [bw,W,R] -> [o,bh,bw,H,R], then the rows of each region: [o,bh,bw,R].
  const across = node.one('MatMul', [maps, node.one('Transpose', [columns], { perm: [0, 2, 1] })]);
  const down = node.one('Unsqueeze', [node.one('Transpose', [rows], { perm: [0, 2, 1] }), g.ints([1])]);
  const sums = node.one('ReduceSum', [node.one('Mul', [across, down]), g.ints([3])], { keepdims: 0 });
  const count = (masks: Value, axis: number) =>
    node.one('Unsqueeze', [node.one('ReduceSum', [masks, g.ints([2])], { keepdims: 0 }), g.ints([axis])]);
  const mean = compute(node, 'sums / Max(height * width, 1)', {
    sums,
    height: count(rows, 1),
    width: count(columns, 0),
  });
  const results = [{ dtype: 'float32' as const, shape: [known(regions)[0] as Dim, outputs, bins, bins] }];
  return g.add('Transpose', [mean], { perm: [3, 0, 1, 2] }, { hint: node.hint, results });
};

/** The anchors of one cell: x1, y1, x2, y2 around the cell's corner. */
function anchorsOf(parameters: Parameters): number[][] {
  const base = parameters.number('base_size', 16);
  const list = (name: string, fallback: number[]) => {
    const given = parameters.numbers(name);
    return given.length > 0 ? given : fallback;
  };
  const center = (base - 1) / 2;
  return list('ratio', [0.5, 1, 2]).flatMap((ratio) => {
    const width = Math.round(Math.sqrt((base * base) / ratio));
    const height = Math.round(width * ratio);
    return list('scale', [8, 16, 32]).map((scale) => {
      const [x, y] = [(width * scale - 1) / 2, (height * scale - 1) / 2];
      return [center - x, center - y, center + x, center + y];
    });
  });
}

function shiftedAnchors(
  node: LayerNode,
  parameters: Parameters,
  plane: readonly [number, number],
): Float32Array {
  const anchors = anchorsOf(parameters);
  const stride = parameters.number('feat_stride', 16);
  const [height, width] = plane;
  const numbers = height * width * anchors.length * 4;
  if (numbers > MAX_ANCHOR_NUMBERS)
    throw badModel(`makes ${numbers} numbers, the limit is ${MAX_ANCHOR_NUMBERS}`);
  if (fixed(node.input(0), 1) !== 2 * anchors.length || fixed(node.input(1), 1) !== 4 * anchors.length)
    throw badModel(
      `${anchors.length} anchors need ${2 * anchors.length} scores and ${4 * anchors.length} offsets, got ${fixed(node.input(0), 1)} and ${fixed(node.input(1), 1)}`,
    );
  const data = new Float32Array(numbers);
  let at = 0;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (const anchor of anchors)
        for (const [i, edge] of anchor.entries()) data[at++] = edge + (i % 2 === 0 ? x : y) * stride;
  return data;
}

/** Applies offsets to anchors and clips them to the image: [count, 4]. */
function proposals(node: LayerNode, anchors: Float32Array, information: Value): Value {
  const { g } = node;
  const count = anchors.length / 4;
  const [low, size] = [new Float32Array(2 * count), new Float32Array(2 * count)];
  for (let i = 0; i < 2 * count; i++) {
    const at = 4 * Math.floor(i / 2) + (i % 2);
    size[i] = (anchors[at + 2] as number) - (anchors[at] as number) + 1;
    low[i] = (anchors[at] as number) + 0.5 * (size[i] as number);
  }
  const sizes = g.constant({ dtype: 'float32', shape: [count, 2], data: size }, 'anchor_size');
  const centers = g.constant({ dtype: 'float32', shape: [count, 2], data: low }, 'anchor_center');
  const flat = reshape(node, node.one('Transpose', [node.input(1)], { perm: [0, 2, 3, 1] }), [count, 4]);
  const move = corner(node, flat, 0);
  const middle = compute(node, 'move * sizes + centers', { move, sizes, centers });
  const grow = corner(node, flat, 2);
  const reach = compute(node, 'Exp(grow) * (sizes * 0.5)', { grow, sizes });
  // im_info is height, width, scale.
  const edges = node.one('Gather', [information, g.ints([1, 0])], { axis: 0 });
  const edge = compute(node, 'edges - 1', { edges });
  const ends = ['middle - reach', 'middle + reach'].map((end) =>
    compute(node, `Max(Min(${end}, edge), 0)`, { middle, reach, edge }),
  );
  return node.one('Concat', ends, { axis: 1 });
}

const proposal: ConvertLayer = (node) => {
  node.bindBatch();
  const { g } = node;
  const parameters = node.parameters('proposal_param');
  const plane = planeOf(node.input());
  if (fixed(node.input(), 0) !== 1) throw badModel(`needs a batch of 1, got ${fixed(node.input(), 0)}`);
  const anchors = shiftedAnchors(node, parameters, plane);
  const count = anchors.length / 4;
  const half = anchors.length / 4 / (plane[0] * plane[1]);
  const facts = reshape(node, node.input(2), [fixed(node.input(2), 0) * fixed(node.input(2), 1)]);
  const information = cutAlong(node, facts, 0, 0, 3);
  const boxes = proposals(node, anchors, information);
  const foreground = cutAlong(node, node.input(), 1, half, 2 * half);
  const all = reshape(node, node.one('Transpose', [foreground], { perm: [0, 2, 3, 1] }), [count]);
  const ends = node.one('Add', [corner(node, boxes, 2), scalar(node, 1)]);
  const sides = node.one('ReduceMin', [node.one('Sub', [ends, corner(node, boxes, 0)])], {
    axes: [1],
    keepdims: 0,
  });
  const smallest = node.one('Mul', [
    node.one('Gather', [information, g.scalar('int64', 2)], { axis: 0 }),
    scalar(node, parameters.number('min_size', 16)),
  ]);
  // Scores are probabilities, so a box that is too small gets -1, below any threshold.
  const scores = node.one('Where', [node.one('GreaterOrEqual', [sides, smallest]), all, scalar(node, -1)]);
  const before = parameters.number('pre_nms_topn', 6000);
  const first = before > 0 ? Math.min(before, count) : count;
  const [best, at] = g.add('TopK', [scores, g.ints([first])], { axis: 0 }, { outputs: 2 }) as [Value, Value];
  const closed = node.one('Gather', [node.one('Concat', [corner(node, boxes, 0), ends], { axis: 1 }), at], {
    axis: 0,
  });
  const after = parameters.number('post_nms_topn', 300);
  const selected = node.one('NonMaxSuppression', [
    node.one('Unsqueeze', [closed, g.ints([0])]),
    node.one('Unsqueeze', [best, g.ints([0, 1])]),
    g.ints([after > 0 ? Math.min(after, first) : first]),
    g.floats([parameters.number('nms_thresh', 0.7)]),
    g.floats([-0.5]),
  ]);
  const picked = node.one('Gather', [selected, g.scalar('int64', 2)], { axis: 1 });
  const kept = node.one('Gather', [node.one('Gather', [boxes, at], { axis: 0 }), picked], { axis: 0 });
  const score = node.one('Unsqueeze', [node.one('Gather', [best, picked], { axis: 0 }), g.ints([1])]);
  const image = node.one('Mul', [score, scalar(node, 0)]);
  return [node.one('Concat', [image, kept], { axis: 1 }), score];
};

export const REGIONS: Readonly<Record<string, ConvertLayer>> = {
  PSROIPooling: positionSensitive,
  Proposal: proposal,
  ROIPooling: regionPooling,
};
