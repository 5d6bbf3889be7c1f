/**
 * SSD: PriorBox becomes a constant, DetectionOutput becomes decoding and NonMaxSuppression. `top_k` limits each class
 * before suppression and `keep_top_k` the whole image after it; ONNX's limit does neither. The result [1,1,M,7] is of
 * one image and has no batch.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { fixedProduct, planeOf, reshape, scalar } from '../../graph/layout.ts';
import { fixed } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';

/** SSD512 has 24,564 priors of 4 numbers. */
const MAX_PRIOR_NUMBERS = 16_000_000;
const MAX_ASPECT_RATIOS = 1000;

function positive(values: readonly number[], what: string): readonly number[] {
  const wrong = values.find((value) => !(value > 0 && Number.isFinite(value)));
  if (wrong === undefined) return values;
  throw badModel(`${what} must be positive, got ${wrong}`);
}

/** Width and height of each prior of a cell, in pixels. */
function priorSizes(parameters: Parameters): readonly (readonly [number, number])[] {
  const widths = positive(parameters.numbers('width'), 'width');
  const heights = positive(parameters.numbers('height'), 'height');
  if (widths.length !== heights.length)
    throw badModel(`has ${widths.length} widths and ${heights.length} heights`);
  if (widths.length > 0) return widths.map((width, i) => [width, heights[i] as number]);
  const minima = positive(parameters.numbers('min_size'), 'min_size');
  const maxima = positive(parameters.numbers('max_size'), 'max_size');
  if (minima.length === 0 || (maxima.length > 0 && maxima.length !== minima.length))
    throw badModel(`has ${minima.length} min_size and ${maxima.length} max_size`);
  const ratios = aspectRatios(parameters);
  return minima.flatMap((minimum, i) => {
    const maximum = maxima[i];
    const middle = maximum === undefined ? [] : [Math.sqrt(minimum * maximum)];
    const squares = [minimum, ...middle].map((size): [number, number] => [size, size]);
    const others = ratios.map((ratio): [number, number] => [
      minimum * Math.sqrt(ratio),
      minimum / Math.sqrt(ratio),
    ]);
    return [...squares, ...others];
  });
}

/** All ratios except 1, without duplicates; each with its inverse when `flip` is set. */
function aspectRatios(parameters: Parameters): number[] {
  const given = positive(parameters.numbers('aspect_ratio'), 'aspect_ratio');
  if (given.length > MAX_ASPECT_RATIOS)
    throw badModel(`${given.length} aspect ratios, the limit is ${MAX_ASPECT_RATIOS}`);
  const ratios = [1];
  for (const ratio of given) {
    if (ratios.some((other) => Math.abs(ratio - other) < 1e-6)) continue;
    ratios.push(ratio);
    if (parameters.flag('flip', true)) ratios.push(1 / ratio);
  }
  return ratios.filter((ratio) => Math.abs(ratio - 1) >= 1e-6);
}

/** One number for both, or one each for height and width; 0 when there is none. */
function both(parameters: Parameters, name: string, names: readonly [string, string]): [number, number] {
  const value = parameters.number(name);
  const [height, width] = [parameters.number(names[0], value), parameters.number(names[1], value)];
  if (height < 0 || width < 0) throw badModel(`${name} must not be negative`);
  return height > 0 && width > 0 ? [height, width] : [0, 0];
}

const priorBox: ConvertLayer = (node) => {
  const parameters = node.parameters('prior_box_param');
  const [height, width] = planeOf(node.input());
  const image = both(parameters, 'img_size', ['img_h', 'img_w']);
  const [imageHeight, imageWidth] = image[0] > 0 ? image : planeOf(node.input(1));
  const step = both(parameters, 'step', ['step_h', 'step_w']);
  const [stepY, stepX] = step[0] > 0 ? step : [imageHeight / height, imageWidth / width];
  const offset = parameters.number('offset', 0.5);
  const [offsetsY, offsetsX] = ['offset_h', 'offset_w'].map((name) => parameters.numbers(name)) as [
    number[],
    number[],
  ];
  if (offsetsY.length !== offsetsX.length)
    throw badModel(`has ${offsetsY.length} offset_h and ${offsetsX.length} offset_w`);
  const offsets =
    offsetsY.length > 0 ? offsetsY.map((y, i) => [y, offsetsX[i] as number]) : [[offset, offset]];
  const sizes = priorSizes(parameters);
  const numbers = height * width * sizes.length * offsets.length * 4;
  if (numbers > MAX_PRIOR_NUMBERS)
    throw badModel(`makes ${numbers} numbers, the limit is ${MAX_PRIOR_NUMBERS}`);
  const data = new Float32Array(2 * numbers);
  let at = 0;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (const [w, h] of sizes)
        for (const [dy, dx] of offsets) {
          const [centerX, centerY] = [(x + (dx as number)) * stepX, (y + (dy as number)) * stepY];
          data[at++] = (centerX - w / 2) / imageWidth;
          data[at++] = (centerY - h / 2) / imageHeight;
          data[at++] = (centerX + w / 2) / imageWidth;
          data[at++] = (centerY + h / 2) / imageHeight;
        }
  if (parameters.flag('clip'))
    for (let i = 0; i < numbers; i++) data[i] = Math.min(Math.max(data[i] as number, 0), 1);
  const variance = variances(parameters);
  for (let i = 0; i < numbers; i++) data[numbers + i] = variance[i % variance.length] as number;
  return node.g.constant({ dtype: 'float32', shape: [1, 2, numbers], data }, node.hint);
};

function variances(parameters: Parameters): readonly number[] {
  const given = positive(parameters.numbers('variance'), 'variance');
  if (given.length === 0) return [0.1];
  if (given.length === 1 || given.length === 4) return given;
  throw badModel(`has ${given.length} variances, expected 1 or 4`);
}

const CORNER = 1;
const CENTER_SIZE = 2;
const CORNER_SIZE = 3;

interface Detection {
  readonly classes: number;
  readonly priors: number;
  /** All classes but the background, in the order of suppression. */
  readonly labels: readonly number[];
  readonly isShared: boolean;
  readonly topK: number;
  readonly keepTopK: number;
  readonly threshold: number | undefined;
  readonly overlap: number;
}

const detectionOutput: ConvertLayer = (node) => {
  node.bindBatch();
  const parameters = node.parameters('detection_output_param');
  const detection = detectionOf(node, parameters);
  const boxes = decoded(node, parameters, detection);
  const { priors, classes, labels } = detection;
  const confidences = reshape(node, node.input(1), [priors, classes]);
  const byClass = node.one('Transpose', [confidences], { perm: [1, 0] });
  const scores = node.one('Gather', [byClass, node.g.ints(labels)], { axis: 0 });
  return rows(node, detection, boxes, scores);
};

function detectionOf(node: LayerNode, parameters: Parameters): Detection {
  const nms = parameters.child('nms_param');
  const classes = parameters.number('num_classes');
  const background = parameters.number('background_label_id', 0);
  const priors = fixedProduct(node.input(2), 1) / 8;
  const isShared = parameters.flag('share_location', true);
  const batch = fixed(node.input(0), 0);
  if (batch !== 1) throw badModel(`needs a batch of 1, got ${batch}`);
  if (nms.number('eta', 1) < 1)
    throw badModel(`an adaptive threshold (eta ${nms.number('eta')}) is not supported`);
  if (!parameters.flag('normalized_bbox', true))
    throw badModel('boxes in pixels (normalized_bbox: false) are not supported');
  const sizes = [fixedProduct(node.input(0), 0), fixedProduct(node.input(1), 0)];
  const wanted = [priors * 4 * (isShared ? 1 : classes), priors * classes];
  if (classes < 1 || !Number.isInteger(priors) || sizes.some((size, i) => size !== wanted[i]))
    throw badModel(
      `${priors} priors and ${classes} classes need inputs of ${wanted.join(' and ')} numbers, got ${sizes.join(' and ')}`,
    );
  const top = nms.number('top_k', -1);
  return {
    classes,
    priors,
    labels: Array.from({ length: classes }, (_, i) => i).filter((label) => label !== background),
    isShared,
    topK: top > -1 ? Math.min(top, priors) : priors,
    keepTopK: parameters.number('keep_top_k', -1),
    threshold: parameters.has('confidence_threshold') ? parameters.number('confidence_threshold') : undefined,
    overlap: nms.number('nms_threshold', 0.3),
  };
}

/** Half of the last axis: [from, from + 2). */
function corner(node: LayerNode, value: Value, from: number): Value {
  return node.g.one('Slice', [value, node.g.ints([from]), node.g.ints([from + 2]), node.g.ints([-1])]);
}

/** Boxes as [priors, 4], or as [classes without background, priors, 4]. */
function decoded(node: LayerNode, parameters: Parameters, detection: Detection): Value {
  const { g } = node;
  const { priors, classes, isShared, labels } = detection;
  const prior = reshape(node, node.input(2), [2, priors, 4]);
  const boxes = g.one('Gather', [prior, g.scalar('int64', 0)], { axis: 0 });
  const variance = g.one('Gather', [prior, g.scalar('int64', 1)], { axis: 0 });
  let offsets = reshape(node, node.input(0), isShared ? [priors, 4] : [priors, classes, 4]);
  if (!isShared) {
    const byClass = node.one('Transpose', [offsets], { perm: [1, 0, 2] });
    offsets = node.one('Gather', [byClass, g.ints(labels)], { axis: 0 });
  }
  if (!parameters.flag('variance_encoded_in_target')) offsets = node.one('Mul', [offsets, variance]);
  const code = parameters.number('code_type', CORNER);
  if (code === CORNER) return node.one('Add', [boxes, offsets]);
  const [low, high] = [corner(node, boxes, 0), corner(node, boxes, 2)];
  const size = g.one('Sub', [high, low]);
  if (code === CORNER_SIZE)
    return node.one('Add', [boxes, node.one('Mul', [offsets, g.one('Concat', [size, size], { axis: -1 })])]);
  if (code !== CENTER_SIZE) throw badModel(`code_type ${code} is not supported`);
  const center = g.one('Mul', [g.one('Add', [low, high]), scalar(node, 0.5)]);
  const middle = node.one('Add', [node.one('Mul', [corner(node, offsets, 0), size]), center]);
  const half = g.one('Mul', [size, scalar(node, 0.5)]);
  const reach = node.one('Mul', [node.one('Exp', [corner(node, offsets, 2)]), half]);
  return node.one('Concat', [node.one('Sub', [middle, reach]), node.one('Add', [middle, reach])], {
    axis: -1,
  });
}

/** The remaining rows [image, label, score, x1, y1, x2, y2], by label, then by falling score. */
function rows(node: LayerNode, detection: Detection, boxes: Value, scores: Value): Value {
  const { g } = node;
  const { labels, topK, keepTopK, isShared } = detection;
  const [best, at] = g.add('TopK', [scores, g.ints([topK])], { axis: 1 }, { outputs: 2 }) as [Value, Value];
  const candidates = isShared
    ? node.one('Gather', [boxes, at], { axis: 0 })
    : node.one('GatherND', [boxes, node.one('Unsqueeze', [at, g.ints([2])])], { batch_dims: 1 });
  const limits = [g.ints([topK]), g.floats([detection.overlap])];
  if (detection.threshold !== undefined) limits.push(g.floats([detection.threshold]));
  const selected = node.one('NonMaxSuppression', [
    straightened(node, candidates),
    node.one('Unsqueeze', [best, g.ints([1])]),
    ...limits,
  ]);
  const picked = node.one('Gather', [selected, g.ints([0, 2])], { axis: 1 });
  const score = node.one('Unsqueeze', [node.one('GatherND', [best, picked]), g.ints([1])]);
  const label = node.one('Gather', [
    g.floats(labels, [labels.length, 1]),
    node.one('Gather', [picked, g.scalar('int64', 0)], { axis: 1 }),
  ]);
  const image = node.one('Mul', [label, scalar(node, 0)]);
  const found = node.one('Concat', [image, label, score, node.one('GatherND', [candidates, picked])], {
    axis: 1,
  });
  return atLeastOne(node, keepTopK > -1 ? keepBest(node, found, score, keepTopK) : found);
}

/** An inverted box has no area in Caffe, but ONNX would swap its corners. */
function straightened(node: LayerNode, boxes: Value): Value {
  const low = corner(node, boxes, 0);
  return node.one('Concat', [low, node.one('Max', [low, corner(node, boxes, 2)])], { axis: -1 });
}

/** The best `limit` rows, in their original order. */
function keepBest(node: LayerNode, found: Value, score: Value, limit: number): Value {
  const { g } = node;
  const total = g.one('Gather', [g.one('Shape', [found]), g.ints([0])]);
  const count = g.one('Min', [total, g.ints([limit])]);
  const flat = g.one('Reshape', [score, g.ints([-1])]);
  const best = g.add('TopK', [flat, count], { axis: 0 }, { outputs: 2 })[1];
  const ordered = g.add('TopK', [best, count], { axis: 0, largest: 0 }, { outputs: 2 })[0];
  return node.one('Gather', [found, ordered], { axis: 0 });
}

/** Without a detection Caffe returns one row that says so. */
function atLeastOne(node: LayerNode, found: Value): Value {
  const { g } = node;
  const none = g.floats([0, -1, -1, -1, -1, -1, -1], [1, 7]);
  const count = g.one('Max', [g.one('Gather', [g.one('Shape', [found]), g.ints([0])]), g.ints([1])]);
  const all = node.one('Concat', [found, none], { axis: 0 });
  const kept = node.one('Slice', [all, g.ints([0]), count, g.ints([0])]);
  const results = [{ dtype: 'float32' as const, shape: [1, 1, g.fresh(), 7] }];
  return g.add('Reshape', [kept, g.ints([1, 1, -1, 7])], {}, { hint: node.hint, results })[0] as Value;
}

export const DETECTIONS: Readonly<Record<string, ConvertLayer>> = {
  DetectionOutput: detectionOutput,
  PriorBox: priorBox,
};
