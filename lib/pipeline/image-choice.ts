/**
 * Completes the image settings for a model input. Missing settings follow from the input's shape ([3,224,224] is CHW,
 * [224,224,3] HWC); the config always wins.
 */
import { DEFAULT_IMAGE, type ImageSettings } from '../codecs/image/image.ts';
import { badInput } from '../contract/errors.ts';
import type { TensorSpec } from '../contract/values.ts';
import { rowShape } from './batch-axes.ts';
import { formatSpec } from './shape-check.ts';

export type ImageChoice = Partial<ImageSettings>;

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
