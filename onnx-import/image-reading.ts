/**
 * Determines how images are fed to each image input of a model, and the lines of config.yaml for that. At run time
 * the shape of the input decides (lib/pipeline/bind/image-choice.ts), so the same function is called here.
 */
import type { ImageSettings } from '../lib/codecs/image/image.ts';
import type { TensorSpec } from '../lib/contract/values.ts';
import { type ImageChoice, imageSettings } from '../lib/pipeline/bind/image-choice.ts';
import type { ImageNumbers, ImageProposal } from './conversion.ts';

export interface SaidPreprocessing {
  /** The file, and what in it. */
  readonly source: string;
  /** As config.yaml has it: value = (pixel × scale − mean) / std. */
  readonly image: Partial<Pick<ImageSettings, 'channels' | 'scale' | 'mean' | 'std' | 'width' | 'height'>>;
  /** What is a guess beside it, and what the service does otherwise than the file says. */
  readonly notes: readonly string[];
}

/** For `takesImages`, where the settings say how pictures lie. */
export function layoutOf({ layout }: ImageChoice): ImageProposal | undefined {
  return layout && { layout, channels: 'rgb' };
}

export interface ImageReading {
  readonly input: string;
  readonly layout: 'chw' | 'hwc';
  readonly channels: 'bgr' | 'rgb' | 'grey';
  /** Undefined: an image keeps its size. */
  readonly height: number | undefined;
  readonly width: number | undefined;
  readonly numbers?: ImageNumbers;
  /** What other files or the graph say of the training. */
  readonly said?: SaidPreprocessing;
}

interface ImageReadings {
  readonly images: readonly ImageReading[];
  readonly config: readonly string[];
}

/** @param stored what is stored with the model of its pictures */
export function readImages(
  inputs: readonly TensorSpec[],
  found: ImageProposal | undefined,
  stored: ImageChoice = {},
): ImageReadings {
  const proposal = found ?? layoutOf(stored);
  const images: ImageReading[] = [];
  const config = new Set<string>();
  for (const spec of inputs) {
    if (!takesImages(spec, proposal)) continue;
    const byShape = imageSettings(spec, stored);
    const settings = found ? imageSettings(spec, { ...stored, layout: found.layout }) : byShape;
    if (settings.layout !== byShape.layout) config.add(`  layout: ${settings.layout}`);
    const numbers = proposal?.numbers?.[spec.name];
    images.push({
      input: spec.name,
      layout: settings.layout,
      channels: settings.channels,
      height: settings.height,
      width: settings.width,
      ...(numbers && { numbers }),
    });
  }
  return { images, config: config.size > 0 ? ['image:', ...config] : [] };
}

/** Whether an input has four dimensions, one of which is or may be 1 or 3 channels. */
export function takesImages({ dtype, shape }: TensorSpec, proposal: ImageProposal | undefined): boolean {
  if (shape.length !== 4 || !/^(float|u?int8)/.test(dtype)) return false;
  const fits = (dim: number | string | undefined) =>
    dim === 1 || dim === 3 || (proposal !== undefined && typeof dim === 'string');
  const axes = proposal ? [proposal.layout === 'chw' ? 1 : 3] : [1, 3];
  return axes.some((axis) => fits(shape[axis]));
}
