/** Reads the `pretrained_cfg` of timm, which its evaluation scales, cuts and normalizes by. */
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import { channelNumbersOf, type Fields, numberOf, pixelsOf } from './fields.ts';
import type { SaidImage, Unapplied } from './processor.ts';

const MEAN = [0.485, 0.456, 0.406];
const STD = [0.229, 0.224, 0.225];
const CROP = 0.875;
const FILTERS = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'] as const;

/** @param fields of `pretrained_cfg`. timm has defaults for each of them */
export function readTimm(fields: Fields): SaidImage {
  const { mean = MEAN, std = STD, crop_pct: share = CROP, crop_mode: mode = 'center' } = fields;
  const { interpolation = 'bicubic', input_size: size } = fields;
  const [, height, width] = Array.isArray(size) ? (size as readonly unknown[]).map(pixelsOf) : [];
  const [means, stds, part] = [channelNumbersOf(mean), channelNumbersOf(std), numberOf(share)];
  const filter = FILTERS.find((name) => name === interpolation);
  const refused: Unapplied[] = [];
  const refuse = (name: string, value: unknown, line: string, ...settledBy: (keyof ImageChoice)[]) =>
    refused.push({
      field: `${name} ${JSON.stringify(value)?.slice(0, 80)}`,
      advice: `put image: {${line}} into the settings`,
      settledBy,
    });
  if (!means) refuse('mean', mean, 'mean: [0.485, 0.456, 0.406]', 'mean');
  if (!stds || stds.includes(0)) refuse('std', std, 'std: [0.229, 0.224, 0.225]', 'std');
  if (!filter) refuse('interpolation', interpolation, 'resample: bicubic', 'resample');
  const image = {
    channels: 'rgb',
    scale: 1 / 255,
    mean: means ?? MEAN,
    std: stds ?? STD,
    resample: filter ?? 'bicubic',
    middle: 'round',
  } as const;
  if (height === undefined || width === undefined || !part || part <= 0) {
    refuse(
      size === undefined ? 'input_size' : 'crop_pct',
      size === undefined ? size : share,
      'resize: 256, height: 224, width: 224',
      'resize',
      'height',
    );
    return { image, refused };
  }
  const [high, wide] = [height, width].map((side) => Math.floor(side / part)) as [number, number];
  const isSquashed = mode === 'squash';
  if (!isSquashed && (mode !== 'center' || high !== wide)) refuse('crop_mode', mode, 'resize: 256', 'resize');
  return { image: { ...image, height, width, resize: isSquashed ? [high, wide] : high }, refused };
}
