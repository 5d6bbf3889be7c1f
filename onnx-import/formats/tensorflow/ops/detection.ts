/**
 * Converts non-maximum suppression: from boxes [y1, x1, y2, x2] and scores to the indices of the remaining boxes,
 * best first. Padded variants return a fixed size and the number of valid entries; the combined one handles a batch
 * with classes.
 */
import { pick, unsqueeze } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumber } from '../../../graph/numbers.ts';
import { fixed, rank } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, floatAttribute, type TfNode } from '../graph.ts';
import { Arithmetic } from './arithmetic.ts';
import { product, reshape, type Size, shapeList, sizesOf, transpose } from './dims.ts';
import { cast, oneNumber } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type OpTable, type Rule, takes } from './rule.ts';

interface Suppression {
  readonly boxes: Value;
  readonly scores: Value;
  readonly count: Value;
  readonly overlap: Value;
  readonly score?: Value;
}

/** The selected indices of one image and one class, as int64. */
function places(node: TfNode, g: GraphBuilder, { boxes, scores, count, overlap, score }: Suppression): Value {
  const inputs = [
    unsqueeze(g, cast(g, boxes, 'float32'), [0]),
    unsqueeze(g, cast(g, scores, 'float32'), [0, 1]),
    oneNumber(g, count, 'int64'),
    oneNumber(g, overlap, 'float32'),
    ...(score ? [oneNumber(g, score, 'float32')] : []),
  ];
  return pick(g, g.one('NonMaxSuppression', inputs, {}, node.name), 2, 1);
}

const plain: Rule = (node, [boxes, scores, count, overlap], g) => {
  const limit = overlap ?? g.scalar('float32', floatAttribute(node, 'iou_threshold', 0.5));
  return cast(g, places(node, g, { boxes, scores, count, overlap: limit }), 'int32');
};

const thresholded: Rule = (node, [boxes, scores, count, overlap, score], g) =>
  cast(g, places(node, g, { boxes, scores, count, overlap, score }), 'int32');

/** Pads the indices with 0 to the maximum output size, if the node requests it. */
function padded(node: TfNode, g: GraphBuilder, found: Value, count: Value): { found: Value; valid: Value } {
  const number = g.one('Shape', [found]);
  const valid = cast(g, g.one('Squeeze', [number, g.ints([0])]), 'int32');
  if (!flagAttribute(node, 'pad_to_max_output_size', false)) return { found, valid };
  const missing = g.one('Sub', [oneNumber(g, count, 'int64'), number]);
  const pads = g.one('Concat', [g.ints([0]), missing], { axis: 0 });
  return { found: g.one('Pad', [found, pads]), valid };
}

const counted: Rule = (node, [boxes, scores, count, overlap, score], g) => {
  const { found, valid } = padded(node, g, places(node, g, { boxes, scores, count, overlap, score }), count);
  return [cast(g, found, 'int32'), valid];
};

const soft: Rule = (node, [boxes, scores, count, overlap, score, sigma], g) => {
  if (constantNumber(sigma, 'soft_nms_sigma') !== 0) refuse('is supported for soft_nms_sigma 0 only');
  const kept = places(node, g, { boxes, scores, count, overlap, score });
  const own = g.one('Gather', [scores, kept], { axis: 0 });
  const { found, valid } = padded(node, g, kept, count);
  return [cast(g, found, 'int32'), padded(node, g, own, count).found, valid];
};

/** Marks suppressed scores; real ones are above the threshold. */
const NONE = -3.4e38;

/**
 * boxes [batch, n, q, 4], scores [batch, n, classes]. Suppressed scores are marked and the best of the others
 * selected, which needs no loop over the batch.
 */
const combined: Rule = (node, [boxes, scores, perClass, total, overlap, score], g, context) => {
  if (rank(scores) !== 3 || rank(boxes) !== 4)
    refuse(`needs boxes of 4 and scores of 3 dimensions, got ${rank(boxes)} and ${rank(scores)}`);
  const [batch, n, classes] = sizesOf(g, scores) as [Size, Size, Size];
  const shared = fixed(boxes, 2) === 1;
  const rows = product(g, [batch, classes]);
  const byClass = transpose(g, boxes, [0, 2, 1, 3]);
  const own = shared ? g.one('Expand', [byClass, shapeList(g, [batch, classes, n, 4])]) : byClass;
  const flatBoxes = reshape(g, own, [batch, product(g, [classes, n]), 4]);
  const byScore = transpose(g, scores, [0, 2, 1]);
  const found = g.one('NonMaxSuppression', [
    reshape(g, own, [rows, n, 4]),
    reshape(g, byScore, [rows, 1, n]),
    oneNumber(g, perClass, 'int64'),
    oneNumber(g, overlap, 'float32'),
    oneNumber(g, score, 'float32'),
  ]);
  const at = g.one('Gather', [found, g.ints([0, 2])], { axis: 1 });
  const table = reshape(g, byScore, [rows, n]);
  const marked = g.one('Expand', [g.scalar('float32', NONE), shapeList(g, [rows, n])]);
  const kept = g.one('ScatterND', [marked, at, g.one('GatherND', [table, at])]);
  const wanted = constantNumber(total, 'max_total_size');
  const size = flagAttribute(node, 'pad_per_class', false)
    ? Math.min(wanted, constantNumber(perClass, 'max_output_size_per_class') * fixed(scores, 2))
    : wanted;
  // There may be fewer candidates than requested.
  const flat = g.one('Pad', [
    reshape(g, kept, [batch, product(g, [classes, n])]),
    g.ints([0, 0, 0, size]),
    g.scalar('float32', NONE),
  ]);
  const [best, index] = g.add('TopK', [flat, g.ints([size])], { axis: 1 }, { outputs: 2 }) as [Value, Value];
  const real = g.one('Greater', [best, g.scalar('float32', NONE)]);
  return results(node, g, new Arithmetic(g, context, node.name), { best, index, real, flatBoxes, n });
};

function results(
  node: TfNode,
  g: GraphBuilder,
  on: Arithmetic,
  found: { best: Value; index: Value; real: Value; flatBoxes: Value; n: Size },
): Value[] {
  const { best, index, real, flatBoxes, n } = found;
  const zero = g.scalar('float32', 0);
  const safe = g.one('Where', [real, index, g.scalar('int64', 0)]);
  const count = typeof n === 'number' ? g.scalar('int64', n) : g.one('Squeeze', [n, g.ints([0])]);
  const boxes = g.one('GatherND', [flatBoxes, unsqueeze(g, safe, [2])], { batch_dims: 1 });
  const clipped = flagAttribute(node, 'clip_boxes', true)
    ? on.one('Clip', [boxes, zero, g.scalar('float32', 1)])
    : boxes;
  const classes = cast(g, g.one('Div', [safe, count]), 'float32');
  const valid = g.one('ReduceSum', [cast(g, real, 'int32'), g.ints([1])], { keepdims: 0 });
  return [
    g.one('Where', [unsqueeze(g, real, [2]), clipped, zero], {}, node.name),
    g.one('Where', [real, best, zero]),
    g.one('Where', [real, classes, zero]),
    valid,
  ];
}

export const DETECTION: OpTable = {
  ...takes(3, { NonMaxSuppression: plain }),
  ...takes(4, { NonMaxSuppressionV2: plain }),
  ...takes(5, { NonMaxSuppressionV3: thresholded, NonMaxSuppressionV4: counted }),
  ...takes(6, { CombinedNonMaxSuppression: combined, NonMaxSuppressionV5: soft }),
};
