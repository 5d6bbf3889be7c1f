/**
 * Detection. DetectionOutput decodes, suppresses and keeps boxes; its result has a fixed number of rows, of which the
 * first unused one begins with -1.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { detected } from '../../emit/detect.ts';
import { cutAlong } from '../../emit/gather.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';

const CODES = ['corner', 'center_size'] as const;
const CODE_PREFIX = 'caffe.priorboxparameter.';

const detectionOutput: Rule = (node) => {
  node.bindBatch();
  if (node.optional(3) ?? node.optional(4))
    throw badModel('with additional predictions (5 inputs) is not supported');
  const inputs = [node.input(0), node.input(1), node.input(2)] as const;
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
  const text = node.text('code_type', `${CODE_PREFIX}corner`).toLowerCase().replace(CODE_PREFIX, '');
  const code = CODES.find((known) => known === text);
  if (!code) throw badModel(`code_type ${text.slice(0, 50)} is not supported`);
  const [kinds, isEncoded] = [fixed(inputs[2], 1), node.flag('variance_encoded_in_target', false)];
  if (kinds !== 2 && !(kinds === 1 && isEncoded)) throw badModel(`has ${kinds} rows of priors`);
  const priors = fixed(inputs[2], -1) / 4;
  const classes = node.opset >= 8 ? fixed(inputs[1], 1) / priors : node.whole('num_classes');
  const [top, keep] = [node.whole('top_k', -1), node.numbers('keep_top_k', [-1])[0] as number];
  const topK = top > 0 ? Math.min(top, priors) : priors;
  const found = detected(
    node,
    {
      classes,
      priors,
      background: node.whole('background_label_id', 0),
      isShared: node.flag('share_location', true),
      code,
      isEncoded,
      topK,
      keepTopK: keep > 0 ? keep : undefined,
      threshold: node.number('confidence_threshold', 0),
      overlap: node.number('nms_threshold'),
    },
    inputs,
  );
  return filled(node, found, keep > 0 ? keep : topK * classes);
};

/** `limit` rows: those found, one that begins with -1, and zeros. */
function filled(node: OvNode, found: Value, limit: number): Value {
  const { g } = node;
  const end = g.floats([-1, 0, 0, 0, 0, 0, 0], [1, 7]);
  const rest = g.floats(new Float32Array(limit * 7), [limit, 7], 'unused');
  const all = cutAlong(g, g.one('Concat', [found, end, rest], { axis: 0 }), 0, 0, limit);
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
  const facts = g.one('Concat', [cutAlong(g, wide, -1, 0, 2), inOrder(score)], { axis: 1 });
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
