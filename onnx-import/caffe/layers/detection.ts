/**
 * SSD: PriorBox becomes a constant, DetectionOutput becomes decoding and NonMaxSuppression. The result [1,1,M,7] is of one
 * image and has no batch.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { aspectRatios, type Detection, detected, priorBoxes, priorSizes } from '../../emit/detect.ts';
import { cutAlong } from '../../emit/gather.ts';
import { fixedProduct, planeOf } from '../../graph/layout.ts';
import type { Value } from '../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';

function positive(values: readonly number[], what: string): readonly number[] {
  const wrong = values.find((value) => !(value > 0 && Number.isFinite(value)));
  if (wrong === undefined) return values;
  throw badModel(`${what} must be positive, got ${wrong}`);
}

/** Width and height of each prior of a cell, in pixels. */
function sizesOf(parameters: Parameters): readonly (readonly [number, number])[] {
  const widths = positive(parameters.numbers('width'), 'width');
  const heights = positive(parameters.numbers('height'), 'height');
  if (widths.length !== heights.length)
    throw badModel(`has ${widths.length} widths and ${heights.length} heights`);
  if (widths.length > 0) return widths.map((width, i) => [width, heights[i] as number]);
  const minima = positive(parameters.numbers('min_size'), 'min_size');
  const maxima = positive(parameters.numbers('max_size'), 'max_size');
  if (minima.length === 0 || (maxima.length > 0 && maxima.length !== minima.length))
    throw badModel(`has ${minima.length} min_size and ${maxima.length} max_size`);
  const ratios = aspectRatios(parameters.numbers('aspect_ratio'), parameters.flag('flip', true));
  return priorSizes(minima, maxima, ratios);
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
  const [stepY, stepX] = step[0] > 0 ? step : ([imageHeight / height, imageWidth / width] as const);
  const offset = parameters.number('offset', 0.5);
  const [offsetsY, offsetsX] = ['offset_h', 'offset_w'].map((name) => parameters.numbers(name)) as [
    number[],
    number[],
  ];
  if (offsetsY.length !== offsetsX.length)
    throw badModel(`has ${offsetsY.length} offset_h and ${offsetsX.length} offset_w`);
  const sizes = sizesOf(parameters);
  const data = priorBoxes({
    height,
    width,
    imageHeight,
    imageWidth,
    sizes,
    offsets: offsetsY.length > 0 ? offsetsY.map((y, i) => [offsetsX[i] as number, y]) : [[offset, offset]],
    steps: [stepX, stepY],
    isClipped: parameters.flag('clip'),
    variances: positive(parameters.numbers('variance'), 'variance'),
  });
  return node.g.constant({ dtype: 'float32', shape: [1, 2, data.length / 2], data }, node.hint);
};

/** By their numbers in the file. */
const CODES: Readonly<Record<number, Detection['code']>> = {
  1: 'corner',
  2: 'center_size',
  3: 'corner_size',
};

const detectionOutput: ConvertLayer = (node) => {
  node.bindBatch();
  const parameters = node.parameters('detection_output_param');
  const nms = parameters.child('nms_param');
  const inputs = [node.input(0), node.input(1), node.input(2)] as const;
  if (nms.number('eta', 1) < 1)
    throw badModel(`an adaptive threshold (eta ${nms.number('eta')}) is not supported`);
  if (!parameters.flag('normalized_bbox', true))
    throw badModel('boxes in pixels (normalized_bbox: false) are not supported');
  const code = CODES[parameters.number('code_type', 1)];
  if (!code) throw badModel(`code_type ${parameters.number('code_type')} is not supported`);
  const priors = fixedProduct(inputs[2], 1) / 8;
  const [top, keep] = [nms.number('top_k', -1), parameters.number('keep_top_k', -1)];
  const found = detected(
    node,
    {
      classes: parameters.number('num_classes'),
      priors,
      background: parameters.number('background_label_id', 0),
      isShared: parameters.flag('share_location', true),
      code,
      isEncoded: parameters.flag('variance_encoded_in_target'),
      topK: top > -1 ? Math.min(top, priors) : priors,
      keepTopK: keep > -1 ? keep : undefined,
      threshold: parameters.has('confidence_threshold')
        ? parameters.number('confidence_threshold')
        : undefined,
      overlap: nms.number('nms_threshold', 0.3),
    },
    inputs,
  );
  return atLeastOne(node, found);
};

/** Without a detection Caffe returns one row that says so. */
function atLeastOne(node: LayerNode, found: Value): Value {
  const { g } = node;
  const none = g.floats([0, -1, -1, -1, -1, -1, -1], [1, 7]);
  const count = g.one('Max', [g.one('Gather', [g.one('Shape', [found]), g.ints([0])]), g.ints([1])]);
  const all = node.one('Concat', [found, none], { axis: 0 });
  const kept = cutAlong(node, all, 0, 0, count);
  const results = [{ dtype: 'float32' as const, shape: [1, 1, g.fresh(), 7] }];
  return g.add('Reshape', [kept, g.ints([1, 1, -1, 7])], {}, { hint: node.hint, results })[0] as Value;
}

export const DETECTIONS: Readonly<Record<string, ConvertLayer>> = {
  DetectionOutput: detectionOutput,
  PriorBox: priorBox,
};
