/**
 * The output shapes of Caffe's data layers, as far as the net's text states them. A Data layer's image size is in its
 * database, often not in the text; then the user must give it.
 */
import { basename } from 'node:path';
import { messageOf } from '../../wire/message.ts';
import type { ImageNumbers } from '../conversion.ts';
import type { Layer } from './net.ts';
import { Parameters } from './node.ts';
import type { ParameterName } from './parameters.ts';

type ShapeOf = (
  parameters: (name: ParameterName) => Parameters,
  top: number,
) => readonly number[] | undefined;

const input: ShapeOf = (parameters, top) => {
  const shapes = parameters('input_param').children('shape');
  return (shapes.length === 1 ? shapes[0] : shapes[top])?.numbers('dim');
};

const dummy: ShapeOf = (parameters, top) => {
  const own = parameters('dummy_data_param');
  const shapes = own.children('shape');
  if (shapes.length > 0) return (shapes.length === 1 ? shapes[0] : shapes[top])?.numbers('dim');
  const dims = ['num', 'channels', 'height', 'width'].map((name) => {
    const values = own.numbers(name);
    return values.length === 1 ? values[0] : values[top];
  });
  return dims.every((dim) => dim !== undefined) ? dims : undefined;
};

const memory: ShapeOf = (parameters, top) => {
  const own = parameters('memory_data_param');
  const names = top === 0 ? ['batch_size', 'channels', 'height', 'width'] : ['batch_size'];
  return names.map((name) => own.number(name));
};

/** Images from files. The second top is the label. */
const pictures =
  (name: 'data_param' | 'image_data_param' | 'window_data_param'): ShapeOf =>
  (parameters, top) => {
    const [own, transform] = [parameters(name), parameters('transform_param')];
    const batch = Math.max(1, own.number('batch_size', 1));
    if (top > 0) return [batch];
    const crop = transform.number('crop_size') || own.number('crop_size');
    const [height, width] = [crop || own.number('new_height'), crop || own.number('new_width')];
    const isGrey =
      transform.flag('force_gray') || (name === 'image_data_param' && !own.flag('is_color', true));
    const isColor = transform.flag('force_color') || transform.numbers('mean_value').length === 3;
    const channels = isGrey ? 1 : isColor || name !== 'data_param' ? 3 : 0;
    return height > 0 && width > 0 && channels > 0 ? [batch, channels, height, width] : undefined;
  };

const unknown: ShapeOf = () => undefined;

const SHAPES: Readonly<Record<string, ShapeOf>> = {
  AnnotatedData: pictures('data_param'),
  Data: pictures('data_param'),
  DenseImageData: unknown,
  DummyData: dummy,
  HDF5Data: unknown,
  ImageData: pictures('image_data_param'),
  Input: input,
  MemoryData: memory,
  VideoData: unknown,
  WindowData: pictures('window_data_param'),
};

/** For the list in docs/reference/operators.md. */
export const DATA_LAYER_TYPES: readonly string[] = Object.keys(SHAPES);

export function isDataLayer(type: string): boolean {
  return Object.hasOwn(SHAPES, type);
}

/** Returns undefined when the text does not give the shape. */
export function dataShape(layer: Layer, top: number): readonly number[] | undefined {
  const parameters = (name: ParameterName) => new Parameters(messageOf(layer.message, name));
  return SHAPES[layer.type]?.(parameters, top);
}

/**
 * The numbers of an image of the layer, as config.yaml has them: Caffe subtracts the mean before it multiplies. Undefined
 * when it does neither, and when the mean is in another file.
 */
export function imageNumbers(layer: Layer): ImageNumbers | undefined {
  const transform = new Parameters(messageOf(layer.message, 'transform_param'));
  const means = transform.numbers('mean_value');
  const scale = decimal(transform.number('scale', 1));
  if (transform.has('mean_file') || ![0, 1, 3].includes(means.length)) return undefined;
  if (scale === 1 && means.length === 0) return undefined;
  const mean = means.map((value) => Number((decimal(value) * scale).toPrecision(12)));
  return { scale, mean: mean.length === 0 ? [0] : mean };
}

/** A float32 as it was written: 0.017, not 0.017000000923871994. */
function decimal(value: number): number {
  const short = Number(value.toPrecision(7));
  return Math.fround(short) === Math.fround(value) ? short : value;
}

/** The preprocessing of the layer, which a client now has to do. */
export function preparation(layer: Layer): string | undefined {
  const transform = new Parameters(messageOf(layer.message, 'transform_param'));
  const parts = [
    transform.numbers('mean_value').length > 0
      ? `subtracts ${transform.numbers('mean_value').join(', ')}`
      : '',
    transform.has('mean_file') ? `subtracts the mean of ${basename(transform.text('mean_file'))}` : '',
    transform.number('scale', 1) === 1 ? '' : `multiplies by ${transform.number('scale')}`,
  ].filter((part) => part !== '');
  if (parts.length === 0) return undefined;
  return `layer "${layer.name}" (${layer.type}) ${parts.join(', then ')}; the model expects records with that done`;
}
