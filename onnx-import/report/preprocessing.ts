/**
 * What an ONNX file itself says of how its pictures were prepared in training: its metadata, and the graph, where it rescales
 * pixels. It is advice, because it seldom is the whole.
 */
import type { ImageSettings } from '../../lib/codecs/image/image.ts';
import { type OnnxLabels, onnxLabels } from '../onnx/labels.ts';
import { rescalingOf } from '../onnx/rescaling.ts';
import type { Message } from '../wire/table.ts';
import type { ImageReading, SaidPreprocessing } from './image-reading.ts';

/** What is said of the input's pictures; undefined when nothing is. @param model the ONNX file */
export function saidPreprocessing(model: Message, reading: ImageReading): SaidPreprocessing | undefined {
  return ofMetadata(onnxLabels(model).metadata, reading) ?? ofGraph(model, reading);
}

const PIXELS: Readonly<Record<string, ImageSettings['channels']>> = {
  Gray8: 'grey',
  Rgb8: 'rgb',
  Bgr8: 'bgr',
};
const RANGES: Readonly<Record<string, Pick<ImageSettings, 'scale' | 'mean'>>> = {
  NominalRange_0_255: { scale: 1, mean: [0] },
  Normalized_0_1: { scale: 1 / 255, mean: [0] },
  Normalized_1_1: { scale: 1 / 127.5, mean: [1] },
};

/** The keys that ONNX defines for pictures, and the exporter of YOLO, whose nets are all trained alike. */
function ofMetadata(metadata: OnnxLabels['metadata'], reading: ImageReading): SaidPreprocessing | undefined {
  const channels = PIXELS[metadata.get('Image.BitmapPixelFormat') ?? ''];
  const range = RANGES[metadata.get('Image.NominalPixelRange') ?? ''];
  if (channels && range) {
    return {
      source: 'Image.* in the metadata of the model file',
      image: { channels, ...range, std: [1] },
      notes: [],
    };
  }
  if (metadata.get('author') !== 'Ultralytics') return undefined;
  const size = pictureSize(metadata.get('imgsz') ?? '');
  const isOpen = reading.height === undefined && size !== undefined;
  const image = { channels: 'rgb', scale: 1 / 255, mean: [0], std: [1], ...(isOpen && size) } as const;
  return {
    source: 'the metadata of the model file, which name Ultralytics',
    image,
    notes: [fitting(metadata)],
  };
}

/** `[640, 640]`: height and width. */
function pictureSize(text: string): Pick<ImageSettings, 'height' | 'width'> | undefined {
  const [, height, width = height] = /^\[(\d{1,5})(?:, *(\d{1,5}))?\]$/.exec(text.trim()) ?? [];
  return height === undefined ? undefined : { height: Number(height), width: Number(width) };
}

function fitting(metadata: OnnxLabels['metadata']): string {
  if (metadata.get('task') === 'classify')
    return 'Ultralytics scales the shorter side of a picture to the size of the model and cuts the middle out: image.resize does it';
  const stride = /^\d{1,4}$/.test(metadata.get('stride') ?? '') ? metadata.get('stride') : undefined;
  const sizes = stride === undefined ? '' : `, whose sides are multiples of ${stride}`;
  return `Ultralytics pads pictures to the size of the model${sizes}, the service scales them: pad them before they are sent`;
}

function ofGraph(model: Message, reading: ImageReading): SaidPreprocessing | undefined {
  const range = rescalingOf(model, reading.input);
  if (!range) return undefined;
  const grey = reading.channels === 'grey';
  return {
    source: `the graph, which itself computes ${range.text}`,
    image: { channels: grey ? 'grey' : 'rgb', scale: range.most === 255 ? 1 : 1 / 255, mean: [0], std: [1] },
    notes: grey ? [] : ['the order RGB is a guess'],
  };
}
