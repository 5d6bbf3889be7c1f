/** Reads the settings of an image processor of Transformers as settings of `image:`. What these cannot say is named, never left out. */
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import { channelNumbersOf, type Fields, fieldsOf, numberOf, pixelsOf, sidesOf } from './fields.ts';
import { PROCESSORS, SHORTER_SIDE } from './processors.ts';

export interface Unapplied {
  /** The field, with what it asks for. */
  readonly field: string;
  readonly advice: string;
  /** The settings of `image:` that stand in for it. */
  readonly settledBy?: readonly (keyof ImageChoice)[];
}

export interface SaidImage {
  readonly image: ImageChoice;
  readonly refused: readonly Unapplied[];
}

const RESAMPLE = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'] as const;
/** Fields without an effect on a picture, or with one that is always taken. */
const HARMLESS: ReadonlySet<string> = new Set([
  'image_processor_type',
  'feature_extractor_type',
  'processor_class',
  '_valid_processor_keys',
  'do_convert_rgb',
  'do_reduce_labels',
  'reduce_labels',
  'default_to_square',
  'device',
  'disable_grouping',
  'return_tensors',
  'input_data_format',
  'num_channels',
  'model_input_names',
  'transformers_version',
  '_commit_hash',
]);
const READ: ReadonlySet<string> = new Set([
  'do_resize',
  'size',
  'resample',
  'do_center_crop',
  'crop_size',
  'do_rescale',
  'rescale_factor',
  'do_normalize',
  'image_mean',
  'image_std',
  'do_flip_channel_order',
  'data_format',
]);
/** The values of these are those of a processor that does nothing with them. */
const IDLE: Readonly<Record<string, unknown>> = {
  keep_aspect_ratio: false,
  ensure_multiple_of: 1,
  crop_pct: 1,
  rescale_offset: false,
  include_top: false,
};
const INSTEAD = 'do it before pictures are sent';

/** Undefined where the fields say nothing of pictures. */
export function readProcessor(fields: Fields): SaidImage | undefined {
  const type = typeName(fields);
  const processor = type === undefined ? undefined : PROCESSORS[type];
  const filled = withSize({ ...processor?.defaults, ...fields }, type);
  const plain = processor?.plain?.(filled) ?? filled;
  const isPictures =
    processor ??
    ['size', 'image_mean', 'do_rescale', 'do_normalize', 'do_resize'].some((key) => key in fields);
  if (!isPictures) return undefined;
  const parts = [numbersOf(plain), scalingOf(plain), layoutOf(plain)];
  const image = Object.assign({}, ...parts.map((part) => part.image)) as ImageChoice;
  return { image, refused: [...parts.flatMap((part) => part.refused), ...othersIn(plain)] };
}

function typeName(fields: Fields): string | undefined {
  const name = fields['image_processor_type'] ?? fields['feature_extractor_type'];
  return typeof name === 'string'
    ? name.replace(/(ImageProcessor|FeatureExtractor)(Fast|Pil)?$/, '')
    : undefined;
}

/** The size as an object, as newer files have it. */
function withSize(fields: Fields, type: string | undefined): Fields {
  const side = numberOf(fields['size']);
  if (side === undefined) return fields;
  const isShorter =
    type !== undefined && type in PROCESSORS
      ? SHORTER_SIDE.has(type)
      : fields['default_to_square'] === false || fields['do_center_crop'] === true;
  return { ...fields, size: isShorter ? { shortest_edge: side } : { height: side, width: side } };
}

function numbersOf(fields: Fields): SaidImage {
  const normalizes = fields['do_normalize'] === true;
  // Before do_rescale existed, do_normalize divided by 255 as well.
  const rescales = fields['do_rescale'] === true || (fields['do_rescale'] === undefined && normalizes);
  const scale = rescales ? numberOf(fields['rescale_factor'] ?? 1 / 255) : 1;
  const mean = normalizes ? channelNumbersOf(fields['image_mean']) : [0];
  const std = normalizes ? channelNumbersOf(fields['image_std']) : [1];
  const wrong = [
    ...(scale === undefined ? ['rescale_factor'] : []),
    ...(mean ? [] : ['image_mean']),
    ...(std && !std.includes(0) ? [] : ['image_std']),
  ];
  const refused = wrong.map((field) => unread(field, fields[field], 'scale: 0.00392, mean: 0.5, std: 0.5'));
  const isFlipped = fields['do_flip_channel_order'] === true;
  const inOrder = (values: readonly number[] = [0]) => (isFlipped ? values.toReversed() : values);
  const channels = isFlipped ? 'bgr' : 'rgb';
  return { image: { channels, scale: scale ?? 1, mean: inOrder(mean), std: inOrder(std) }, refused };
}

function unread(field: string, value: unknown, example: string): Unapplied {
  const shown = JSON.stringify(value)?.slice(0, 80);
  return { field: `${field} ${shown}`, advice: `expected numbers, as in image: {${example}}` };
}

function scalingOf(fields: Fields): SaidImage {
  const { size, resample } = fields;
  const resizes = fields['do_resize'] ?? size !== undefined;
  const crop = fields['do_center_crop'] === true ? sidesOf(fields['crop_size']) : undefined;
  const refused: Unapplied[] = [];
  if (fields['do_center_crop'] === true && !crop)
    refused.push(unread('crop_size', fields['crop_size'], 'height: 224, width: 224'));
  if (resizes !== true) return { image: { resize: 'none', ...crop }, refused };
  const filter =
    typeof resample === 'number' ? RESAMPLE[resample] : RESAMPLE.find((name) => name === resample);
  if (!filter && resample !== undefined && resample !== null)
    refused.push(unread('resample', resample, 'resample: bicubic'));
  const method = { resample: filter ?? ('bilinear' as const) };
  const sides = sidesOf(size);
  if (sides)
    return {
      image: crop ? { ...method, ...crop, resize: [sides.height, sides.width] } : { ...method, ...sides },
      refused,
    };
  const { shortest_edge: edge, ...more } = fieldsOf(size) ?? {};
  const shorter = pixelsOf(edge);
  const [other] = Object.keys(more).filter((key) => more[key] !== null);
  if (shorter !== undefined && other === undefined)
    return { image: { ...method, resize: shorter, ...crop }, refused };
  const name = other === undefined ? 'size' : `size.${other}`;
  const advice =
    'put what pictures are scaled to into the settings: image: {resize: 256, height: 224, width: 224}, or image: {height: 224, width: 224}';
  refused.push({ field: name, advice, settledBy: ['resize', 'height'] });
  return { image: method, refused };
}

function layoutOf({ data_format: format }: Fields): SaidImage {
  if (format === 'channels_last') return { image: { layout: 'hwc' }, refused: [] };
  if (format === undefined || format === null || format === 'channels_first')
    return { image: {}, refused: [] };
  const field = `data_format ${JSON.stringify(format).slice(0, 80)}`;
  return {
    image: {},
    refused: [{ field, advice: 'put image: {layout: chw} into the settings', settledBy: ['layout'] }],
  };
}

/** Everything else that is switched on. */
function othersIn(fields: Fields): Unapplied[] {
  const isOff = (key: string, value: unknown) =>
    value === null || value === undefined || value === false || IDLE[key] === value;
  return Object.entries(fields)
    .filter(([key, value]) => !HARMLESS.has(key) && !READ.has(key) && !isOff(key, value))
    .map(([key, value]) => ({ field: `${key} ${JSON.stringify(value).slice(0, 60)}`, advice: INSTEAD }));
}
