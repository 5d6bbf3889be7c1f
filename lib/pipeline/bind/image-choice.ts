/**
 * Completes the image settings for a model input. Missing settings follow from the input's shape ([3,224,224] is CHW,
 * [224,224,3] HWC); the config always wins.
 */
import { DEFAULT_IMAGE, type ImageSettings } from '../../codecs/image/image.ts';
import { wholeRange } from '../../codecs/image/levels.ts';
import { badConfig, badInput } from '../../contract/errors.ts';
import type { TensorSpec } from '../../contract/values.ts';
import { rowShape } from '../batch/batch-axes.ts';
import { formatSpec } from './shape-check.ts';

export type ImageChoice = Partial<ImageSettings>;

/**
 * The settings of a preset or of a model's folder, overridden by a job's. Where these swap RGB and BGR, mean and std are
 * swapped too, because each belongs to a colour.
 */
export function overrideImage<Settings extends ImageChoice>(base: ImageChoice, own: Settings): Settings {
  const { channels, mean, std } = base;
  const isSwapped = channels !== undefined && own.channels === (channels === 'rgb' ? 'bgr' : 'rgb');
  const numbers = isSwapped && {
    ...(mean && { mean: mean.toReversed() }),
    ...(std && { std: std.toReversed() }),
  };
  return { ...base, ...numbers, ...own };
}

/** @throws bad_input when the input takes no images (it is not a numeric tensor of rank 3 per row) */
export function imageSettings(spec: TensorSpec, choice: ImageChoice): ImageSettings {
  const row = rowShape(spec);
  if (spec.dtype === 'string' || row.length !== 3) {
    throw badInput(`expected ${spec.dtype} ${formatSpec(row)}, got text or an image`);
  }
  const isChannels = (dim: number | string | undefined) => dim === 3 || dim === 1;
  const looksHwc = isChannels(row[2]) && !isChannels(row[0]);
  const layout = choice.layout ?? (looksHwc ? 'hwc' : DEFAULT_IMAGE.layout);
  const [channels, height, width] = layout === 'chw' ? row : [row[2], row[0], row[1]];
  return {
    ...DEFAULT_IMAGE,
    channels: channels === 1 ? 'grey' : DEFAULT_IMAGE.channels,
    ...(typeof height === 'number' && typeof width === 'number' ? { height, width } : {}),
    ...choice,
    layout,
  };
}

/** @throws bad_config for colours where the input has one channel, and for numbers that its dtype cannot hold */
export function assertImageSettings(spec: TensorSpec, settings: ImageSettings): void {
  const { channels, layout } = settings;
  if (channels !== 'grey' && rowShape(spec)[layout === 'chw' ? 0 : 2] === 1) {
    throw badConfig(
      `the input takes grey images, and image.channels is ${channels}: set image.channels: grey, with one mean and one std`,
    );
  }
  if (!spec.dtype.startsWith('float') && !isHeld(spec.dtype, settings)) {
    throw badConfig(
      `the input is ${spec.dtype}, which cannot hold all that image.scale, mean and std make of pixels from 0 to 255: correct them, or export the model with a float input`,
    );
  }
}

/** Whether every pixel becomes a whole number of the dtype, so that none is rounded or cut off. */
function isHeld(dtype: TensorSpec['dtype'], { scale, mean, std }: ImageSettings): boolean {
  // An image for flags is the mistake of the caller, and its decoder says so.
  if (dtype === 'bool' || dtype === 'string') return true;
  const { min, max } = wholeRange(dtype);
  return Array.from({ length: Math.max(mean.length, std.length) }).every((_, i) => {
    const [offset = 0, divisor = 1] = [mean[i] ?? mean[0], std[i] ?? std[0]];
    const ends = [0, 255].map((pixel) => (pixel * scale - offset) / divisor);
    const isWhole = [scale / divisor, ...ends].every(Number.isInteger);
    return isWhole && ends.every((end) => end >= min && end <= max);
  });
}
