/**
 * Detection. DetectionOutput decodes, suppresses and keeps boxes; its result has a fixed number of rows, of which the
 * first unused one begins with -1.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { scalar } from './elementwise.ts';

interface Detection {
  readonly classes: number;
  readonly priors: number;
  /** All but the background. */
  readonly labels: readonly number[];
  readonly isShared: boolean;
  readonly topK: number;
  readonly keepTopK: number;
}

function part(node: OvNode, value: Value, from: number, to: number, axis = -1): Value {
  return node.g.one('Slice', [value, node.g.ints([from]), node.g.ints([to]), node.g.ints([axis])]);
}

const detectionOutput: Rule = (node) => {
  node.bindBatch();
  const { g } = node;
  const detection = detectionOf(node);
  const { priors, classes, labels } = detection;
  const located = decoded(node, detection);
  const scores = g.one('Transpose', [g.one('Reshape', [node.input(1), g.ints([priors, classes])])], {
    perm: [1, 0],
  });
  const chosen = g.one('Gather', [scores, g.ints(labels)], { axis: 0 });
  return rows(node, detection, located, chosen);
};

function detectionOf(node: OvNode): Detection {
  if (node.optional(3) ?? node.optional(4))
    throw badModel('with additional predictions (5 inputs) is not supported');
  const [locations, confidences, prior] = [node.input(0), node.input(1), node.input(2)];
  node.ignore(
    'visualize',
    'objectness_score',
    'input_height',
    'input_width',
    'eta',
    'label_map_file',
    'output_directory',
    'num_test_image',
    'prob',
    'resize_mode',
  );
  if (node.number('eta', 1) !== 1) throw badModel('eta is not supported');
  if (!node.flag('normalized', false)) throw badModel('boxes in pixels (normalized 0) are not supported');
  for (const name of ['clip_before_nms', 'clip_after_nms', 'decrease_label_id'])
    if (node.flag(name, false)) throw badModel(`${name} is not supported`);
  const classes =
    node.opset >= 8 ? fixed(confidences, 1) / (fixed(prior, -1) / 4) : node.whole('num_classes');
  const background = node.whole('background_label_id', 0);
  const isShared = node.flag('share_location', true);
  const priors = fixed(prior, -1) / 4;
  if (fixed(locations, 0) !== 1) throw badModel(`needs a batch of 1, got ${fixed(locations, 0)}`);
  const wanted = [priors * 4 * (isShared ? 1 : classes), priors * classes];
  const sizes = [locations, confidences].map((value) => fixed(value, 1));
  if (!Number.isInteger(priors) || sizes.some((size, i) => size !== wanted[i]))
    throw badModel(
      `${priors} priors and ${classes} classes need inputs of ${wanted.join(' and ')} numbers, got ${sizes.join(' and ')}`,
    );
  const top = node.whole('top_k', -1);
  const labels = Array.from({ length: classes }, (_, i) => i).filter((label) => label !== background);
  return {
    classes,
    priors,
    labels,
    isShared,
    topK: top > 0 ? Math.min(top, priors) : priors,
    keepTopK: node.numbers('keep_top_k', [-1])[0] as number,
  };
}

/** Boxes as [priors, 4], or as [classes, priors, 4]. */
function decoded(node: OvNode, { priors, classes, isShared, labels }: Detection): Value {
  const { g } = node;
  const isEncoded = node.flag('variance_encoded_in_target', false);
  const kinds = fixed(node.input(2), 1);
  if (kinds !== 2 && !(kinds === 1 && isEncoded)) throw badModel(`has ${kinds} rows of priors`);
  const all = g.one('Reshape', [node.input(2), g.ints([kinds, priors, 4])]);
  const prior = g.one('Gather', [all, g.scalar('int64', 0)], { axis: 0 });
  let offsets = g.one('Reshape', [node.input(0), g.ints(isShared ? [priors, 4] : [priors, classes, 4])]);
  if (!isShared)
    offsets = g.one('Gather', [g.one('Transpose', [offsets], { perm: [1, 0, 2] }), g.ints(labels)], {
      axis: 0,
    });
  if (!isEncoded)
    offsets = g.one('Mul', [offsets, g.one('Gather', [all, g.scalar('int64', 1)], { axis: 0 })]);
  const code = node
    .text('code_type', 'caffe.PriorBoxParameter.CORNER')
    .toLowerCase()
    .replace('caffe.priorboxparameter.', '');
  if (code === 'corner') return g.one('Add', [prior, offsets]);
  if (code !== 'center_size') throw badModel(`code_type ${code.slice(0, 50)} is not supported`);
  const [low, high] = [part(node, prior, 0, 2), part(node, prior, 2, 4)];
  const size = g.one('Sub', [high, low]);
  const center = g.one('Mul', [g.one('Add', [low, high]), scalar(node, size, 0.5)]);
  const middle = g.one('Add', [g.one('Mul', [part(node, offsets, 0, 2), size]), center]);
  const reach = g.one('Mul', [
    g.one('Exp', [part(node, offsets, 2, 4)]),
    g.one('Mul', [size, scalar(node, size, 0.5)]),
  ]);
  return g.one('Concat', [g.one('Sub', [middle, reach]), g.one('Add', [middle, reach])], { axis: -1 });
}

/** The rows [image, label, score, x1, y1, x2, y2], by label, then by falling score. */
function rows(node: OvNode, detection: Detection, located: Value, scores: Value): Value {
  const { g } = node;
  const { labels, topK, keepTopK, isShared, classes } = detection;
  const [best, at] = g.add('TopK', [scores, g.ints([topK])], { axis: 1 }, { outputs: 2 }) as [Value, Value];
  const candidates = isShared
    ? g.one('Gather', [located, at], { axis: 0 })
    : g.one('GatherND', [located, g.one('Unsqueeze', [at, g.ints([2])])], { batch_dims: 1 });
  // An inverted box has no area, but ONNX would swap its corners.
  const low = part(node, candidates, 0, 2);
  const straight = g.one('Concat', [low, g.one('Max', [low, part(node, candidates, 2, 4)])], { axis: -1 });
  const limits = [
    g.ints([topK]),
    g.floats([node.number('nms_threshold')]),
    g.floats([node.number('confidence_threshold', 0)]),
  ];
  const selected = g.one('NonMaxSuppression', [straight, g.one('Unsqueeze', [best, g.ints([1])]), ...limits]);
  const picked = g.one('Gather', [selected, g.ints([0, 2])], { axis: 1 });
  const score = g.one('Unsqueeze', [g.one('GatherND', [best, picked]), g.ints([1])]);
  const label = g.one('Gather', [
    g.floats(labels, [labels.length, 1]),
    g.one('Gather', [picked, g.scalar('int64', 0)], { axis: 1 }),
  ]);
  const image = g.one('Mul', [label, scalar(node, label, 0)]);
  const found = g.one('Concat', [image, label, score, g.one('GatherND', [candidates, picked])], { axis: 1 });
  const limit = keepTopK > 0 ? keepTopK : topK * classes;
  return filled(node, keepTopK > 0 ? keepBest(node, found, score, keepTopK) : found, limit);
}

/** The best `limit` rows, in their original order. */
export function keepBest(node: OvNode, found: Value, score: Value, limit: number): Value {
  const { g } = node;
  const total = g.one('Gather', [g.one('Shape', [found]), g.ints([0])]);
  const count = g.one('Min', [total, g.ints([limit])]);
  const best = g.add(
    'TopK',
    [g.one('Reshape', [score, g.ints([-1])]), count],
    { axis: 0 },
    { outputs: 2 },
  )[1];
  const ordered = g.add('TopK', [best, count], { axis: 0, largest: 0 }, { outputs: 2 })[0];
  return g.one('Gather', [found, ordered], { axis: 0 });
}

/** `limit` rows: those found, one that begins with -1, and zeros. */
function filled(node: OvNode, found: Value, limit: number): Value {
  const { g } = node;
  const end = g.floats([-1, 0, 0, 0, 0, 0, 0], [1, 7]);
  const rest = g.floats(new Float32Array(limit * 7), [limit, 7], 'unused');
  const all = g.one('Slice', [
    g.one('Concat', [found, end, rest], { axis: 0 }),
    g.ints([0]),
    g.ints([limit]),
    g.ints([0]),
  ]);
  const results = [{ dtype: 'float32' as const, shape: [1, 1, limit, 7] }];
  return g.add('Reshape', [all, g.ints([1, 1, limit, 7])], {}, { hint: node.hint, results })[0] as Value;
}

/** Boxes that are suppressed by ONNX's operation of the same name; OpenVINO gives scores and a count too. */
const suppression: Rule = (node) => {
  const { g } = node;
  node.bindBatch();
  if (node.opset < 5)
    throw badModel('is not supported before opset 5: versions of OpenVINO differ in its number of rows');
  const [given, scores] = [node.input(0), node.input(1)];
  const number = (i: number, fallback: number) => {
    const value = node.optional(i);
    return value ? (constantNumbers(value, 'limit')[0] as number) : fallback;
  };
  const [most, overlap, least] = [number(2, 0), number(3, 0), number(4, 0)];
  if (number(5, 0) !== 0) throw badModel('soft suppression is not supported');
  const isSorted = node.flag('sort_result_descending', true);
  if (isSorted && fixed(given, 0) !== 1)
    throw badModel(`sorts the boxes of ${fixed(given, 0)} images together, which is not supported`);
  const encoding = node.choice('box_encoding', ['corner', 'center'], 'corner');
  const perClass = Math.max(0, Math.min(most, fixed(given, 1)));
  const type = node.text('output_type', 'i64') === 'i32' ? 'int32' : 'int64';
  const selected = g.one(
    'NonMaxSuppression',
    [given, scores, g.ints([perClass]), g.floats([overlap]), g.floats([least])],
    { center_point_box: encoding === 'center' ? 1 : 0 },
  );
  const score = g.one('Unsqueeze', [g.one('GatherND', [scores, selected]), g.ints([1])]);
  const order = isSorted ? byScore(node, score) : undefined;
  const inOrder = (value: Value) => (order ? g.one('Gather', [value, order], { axis: 0 }) : value);
  const places = inOrder(selected);
  const wide = cast(node, places, 'float32');
  const facts = g.one('Concat', [part(node, wide, 0, 2), inOrder(score)], { axis: 1 });
  const count = g.one('Shape', [places], { start: 0, end: 1 });
  return [cast(node, places, type), facts, cast(node, count, type)];
};

function byScore(node: OvNode, score: Value): Value {
  const { g } = node;
  const flat = g.one('Reshape', [score, g.ints([-1])]);
  return g.add('TopK', [flat, g.one('Shape', [flat])], { axis: 0 }, { outputs: 2 })[1] as Value;
}

export const DETECTIONS: OpTable = {
  DetectionOutput: detectionOutput,
  NonMaxSuppression: suppression,
};
