/**
 * What the image processors of Transformers take where a file leaves a field out, and what some of them do with a size. Older
 * files name the same processors as feature extractors.
 */
import type { Fields } from './fields.ts';

const STANDARD = { image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5] };
const IMAGENET = { image_mean: [0.485, 0.456, 0.406], image_std: [0.229, 0.224, 0.225] };
const CLIP = {
  image_mean: [0.48145466, 0.4578275, 0.40821073],
  image_std: [0.26862954, 0.26130258, 0.27577711],
};
const [NEAREST, BILINEAR, BICUBIC] = [0, 2, 3];
const ON = { do_resize: true, do_rescale: true, rescale_factor: 1 / 255, do_normalize: true };
const square = (side: number) => ({ height: side, width: side });
const shorter = (side: number) => ({ shortest_edge: side });
const cut = (side: number) => ({ do_center_crop: true, crop_size: square(side) });

export interface Processor {
  readonly defaults: Fields;
  /** What it makes of its own fields; the fields that all processors share are the result. */
  readonly plain?: (fields: Fields) => Fields;
}

const clip: Processor = {
  defaults: { ...ON, ...CLIP, ...cut(224), size: shorter(224), resample: BICUBIC },
};
const vit: Processor = { defaults: { ...ON, ...STANDARD, size: square(224), resample: BILINEAR } };
const mobileNet: Processor = {
  defaults: { ...ON, ...STANDARD, ...cut(224), size: shorter(256), resample: BILINEAR },
};
const beit: Processor = {
  defaults: { ...ON, ...STANDARD, ...cut(224), size: square(256), resample: BICUBIC },
};
const siglip: Processor = { defaults: { ...ON, ...STANDARD, size: square(224), resample: BICUBIC } };

/** By the name without its ending. */
export const PROCESSORS: Readonly<Record<string, Processor>> = {
  ViT: vit,
  Swin: vit,
  Pvt: { defaults: { ...ON, ...IMAGENET, size: square(224), resample: BILINEAR } },
  Segformer: { defaults: { ...ON, ...IMAGENET, size: square(512), resample: BILINEAR } },
  DeiT: beit,
  Beit: beit,
  Data2VecVision: beit,
  CLIP: clip,
  ChineseCLIP: clip,
  Bit: clip,
  ViTHybrid: clip,
  Siglip: siglip,
  Blip: { defaults: { ...ON, ...CLIP, size: square(384), resample: BICUBIC } },
  OwlViT: { defaults: { ...ON, ...CLIP, size: square(768), crop_size: square(768), resample: BICUBIC } },
  MobileNetV1: mobileNet,
  MobileNetV2: mobileNet,
  MobileViT: {
    defaults: {
      ...ON,
      ...cut(256),
      do_normalize: false,
      do_flip_channel_order: true,
      size: shorter(224),
      resample: BILINEAR,
    },
  },
  ConvNext: {
    defaults: { ...ON, ...STANDARD, size: shorter(384), crop_pct: 224 / 256, resample: BILINEAR },
    plain: convNext,
  },
  Levit: {
    defaults: { ...ON, ...IMAGENET, ...cut(224), size: shorter(224), resample: BICUBIC },
    plain: (fields) => withSide(fields, (side) => Math.trunc((256 / 224) * side)),
  },
  PoolFormer: {
    defaults: { ...ON, ...IMAGENET, ...cut(224), size: shorter(224), crop_pct: 0.9, resample: BICUBIC },
    plain: poolFormer,
  },
  EfficientNet: {
    defaults: {
      ...ON,
      ...STANDARD,
      size: square(346),
      crop_size: square(289),
      resample: NEAREST,
      rescale_offset: false,
      include_top: true,
    },
    plain: efficientNet,
  },
};

/** Those whose size, as one number, is the shorter side. */
export const SHORTER_SIDE: ReadonlySet<string> = new Set([
  'CLIP',
  'ChineseCLIP',
  'Bit',
  'ViTHybrid',
  'ConvNext',
  'Levit',
  'PoolFormer',
  'MobileNetV1',
  'MobileNetV2',
  'MobileViT',
]);

function sideOf({ size }: Fields): number | undefined {
  const side = (size as Fields | undefined)?.['shortest_edge'];
  return typeof side === 'number' ? side : undefined;
}

function withSide(fields: Fields, change: (side: number) => number): Fields {
  const side = sideOf(fields);
  return side === undefined ? fields : { ...fields, size: shorter(change(side)) };
}

/** From 384 pixels on the whole picture is scaled, below it is cut. */
function convNext({ crop_pct: share, ...fields }: Fields): Fields {
  const side = sideOf(fields);
  if (side === undefined || typeof share !== 'number') return { ...fields, crop_pct: share };
  if (side >= 384) return { ...fields, size: square(side), do_center_crop: false };
  return { ...fields, ...cut(side), size: shorter(Math.trunc(side / share)) };
}

function poolFormer({ crop_pct: share, ...fields }: Fields): Fields {
  if (typeof share !== 'number') return fields;
  const { height, width } = fields['size'] as Fields;
  if (sideOf(fields) !== undefined) return withSide(fields, (side) => Math.trunc(side / share));
  // A square is scaled by its shorter side, too.
  if (typeof height === 'number' && height === width)
    return { ...fields, size: shorter(Math.trunc(height / share)) };
  return { ...fields, crop_pct: share };
}

/** With `include_top` it divides by the deviation twice. */
function efficientNet({ include_top: twice, rescale_offset: offset, ...fields }: Fields): Fields {
  const { image_mean: mean, image_std: std, do_normalize: normalizes } = fields;
  const means = Array.isArray(mean) ? (mean as readonly number[]) : [mean as number];
  const deviations = Array.isArray(std) ? (std as readonly number[]) : [std as number];
  const isOn = normalizes === true;
  const scaled = offset === true ? means.map((value) => (isOn ? value : 0) + 1) : undefined;
  const divided = twice === true && isOn ? deviations.map((value) => value * value) : undefined;
  return {
    ...fields,
    ...(scaled && { image_mean: scaled, do_normalize: true }),
    ...(scaled && !isOn && { image_std: [1] }),
    ...(divided && { image_std: divided }),
  };
}
