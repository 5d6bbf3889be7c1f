/**
 * What a model's own files say of how its pictures were prepared in training: the preprocessor_config.json of Hugging Face,
 * the config.json of timm, the metadata of an ONNX file, and the graph, where it rescales pixels itself.
 */
import { basename, dirname } from 'node:path';
import type { ImageSettings } from '../../lib/codecs/image/image.ts';
import { textOf } from '../../lib/registry/names.ts';
import { type OnnxLabels, onnxLabels } from '../onnx/labels.ts';
import { rescalingOf } from '../onnx/rescaling.ts';
import type { Message } from '../wire/table.ts';
import type { ImageReading, SaidPreprocessing } from './image-reading.ts';

type Fields = Readonly<Record<string, unknown>>;

const PREPROCESSOR = 'preprocessor_config.json';
const CONFIG = 'config.json';
/** The names of Pillow's ways to scale; the service does the second. */
const RESAMPLE = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'];
const BILINEAR = 2;
const MAX_NUMBER = 1e6;

/**
 * What is said of the input's pictures; undefined when nothing is. Fields that are not what the format says are ignored.
 * @param model the ONNX file
 */
export async function saidPreprocessing(
  directory: string,
  model: Message,
  reading: ImageReading,
): Promise<SaidPreprocessing | undefined> {
  return (
    (await ofFile(directory, PREPROCESSOR, huggingFace, reading)) ??
    (await ofFile(directory, CONFIG, timm, reading)) ??
    ofMetadata(onnxLabels(model).metadata) ??
    ofGraph(model, reading)
  );
}

/** Beside the model, or one folder up from `onnx/`. A file that is no JSON says nothing. */
async function ofFile(
  directory: string,
  name: string,
  read: (fields: Fields, reading: ImageReading) => Omit<SaidPreprocessing, 'source'> | undefined,
  reading: ImageReading,
): Promise<SaidPreprocessing | undefined> {
  const folders = basename(directory) === 'onnx' ? [directory, dirname(directory)] : [directory];
  for (const folder of folders) {
    const fields = parsed(await textOf(folder, name));
    const said = fields && read(fields, reading);
    if (said) return { source: name, ...said };
  }
  return undefined;
}

function parsed(text: string | undefined): Fields | undefined {
  try {
    return fieldsOf(JSON.parse(text ?? 'null'));
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function huggingFace(fields: Fields, reading: ImageReading): Omit<SaidPreprocessing, 'source'> | undefined {
  const isOn = (name: string) => fields[name] === true;
  // Before do_rescale existed, do_normalize divided by 255 as well.
  const rescales = isOn('do_rescale') || (fields['do_rescale'] === undefined && isOn('do_normalize'));
  const scale = rescales ? (numberOf(fields['rescale_factor']) ?? 1 / 255) : 1;
  const mean = isOn('do_normalize') ? numbersOf(fields['image_mean'], reading) : [0];
  const std = isOn('do_normalize') ? numbersOf(fields['image_std'], reading) : [1];
  if (!mean || !std || std.includes(0) || !(rescales || isOn('do_normalize'))) return undefined;
  const crop = isOn('do_center_crop') ? sizeOf(fields['crop_size']) : undefined;
  const resize = fields['do_resize'] === false ? undefined : sizeOf(fields['size']);
  const resample = fields['resample'] ?? BILINEAR;
  return {
    image: {
      channels: channelsOf(reading, isOn('do_flip_channel_order') ? 'bgr' : 'rgb'),
      scale,
      mean,
      std,
      ...freeSize(reading, crop ?? resize),
    },
    notes: [
      ...cropNotes(crop, fields['size'], reading),
      ...(resample === BILINEAR ? [] : [scaledNote(RESAMPLE[Number(resample)] ?? 'in another way')]),
    ],
  };
}

function timm(fields: Fields, reading: ImageReading): Omit<SaidPreprocessing, 'source'> | undefined {
  const own = fieldsOf(fields['pretrained_cfg']);
  const mean = numbersOf(own?.['mean'], reading);
  const std = numbersOf(own?.['std'], reading);
  if (!own || !mean || !std || std.includes(0)) return undefined;
  const crop = numberOf(own['crop_pct']) ?? 1;
  const how = own['interpolation'];
  const isOther = typeof how === 'string' && /^\w{1,20}$/.test(how) && how !== 'bilinear';
  const cropped = `the file scales to 1/${crop} of the size and cuts the middle out, which the service does not: cut pictures before they are sent`;
  return {
    image: { channels: channelsOf(reading, 'rgb'), scale: 1 / 255, mean, std },
    notes: [...(crop < 1 ? [cropped] : []), ...(isOther ? [scaledNote(how)] : [])],
  };
}

function scaledNote(how: string): string {
  return `the file scales pictures by another method (${how}) than the service (bilinear), so answers differ a little`;
}

function cropNotes(crop: Size | undefined, size: unknown, reading: ImageReading): string[] {
  const edge = numberOf(fieldsOf(size)?.['shortest_edge']);
  const { height, width } = reading;
  const other =
    crop && height !== undefined && (crop.height !== height || crop.width !== width)
      ? [`the file says ${crop.height} x ${crop.width}, the model takes ${height} x ${width}`]
      : [];
  if (!crop && edge === undefined) return other;
  const scaled = edge === undefined ? '' : `scales the shorter side to ${edge} and `;
  const what = crop
    ? `${scaled}cuts ${crop.height} x ${crop.width} out of the middle`
    : `scales the shorter side to ${edge}`;
  return [
    ...other,
    `the file ${what}, the service scales the whole picture: cut pictures before they are sent`,
  ];
}

interface Size {
  readonly height: number;
  readonly width: number;
}

function sizeOf(value: unknown): Size | undefined {
  const one = numberOf(value);
  const fields = fieldsOf(value);
  const [height, width] =
    one === undefined ? [numberOf(fields?.['height']), numberOf(fields?.['width'])] : [one, one];
  const isSize = (size: number | undefined): size is number =>
    size !== undefined && Number.isInteger(size) && size > 0 && size <= 16_384;
  return isSize(height) && isSize(width) ? { height, width } : undefined;
}

/** Where the model leaves the size open. */
function freeSize({ height }: ImageReading, size: Size | undefined): Partial<Size> {
  return height === undefined && size ? size : {};
}

function channelsOf({ channels }: ImageReading, colours: 'rgb' | 'bgr'): ImageSettings['channels'] {
  return channels === 'grey' ? 'grey' : colours;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Math.abs(value) < MAX_NUMBER ? value : undefined;
}

/** One number for each channel. */
function numbersOf(value: unknown, { channels }: ImageReading): readonly number[] | undefined {
  const list = Array.isArray(value) ? (value as readonly unknown[]).map(numberOf) : [numberOf(value)];
  const isRight = list.length === 1 || list.length === (channels === 'grey' ? 1 : 3);
  return isRight && list.every((one) => one !== undefined) ? list : undefined;
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
function ofMetadata(metadata: OnnxLabels['metadata']): SaidPreprocessing | undefined {
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
  const image = { channels: 'rgb', scale: 1 / 255, mean: [0], std: [1] } as const;
  const notes = [
    'Ultralytics pads pictures to the size of the model, the service scales them: pad them before they are sent',
  ];
  return { source: 'the metadata of the model file, which name Ultralytics', image, notes };
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
