/**
 * Image presets: how published nets were trained, under the name of the library that trained most of them. A preset
 * is resolved when config.yaml is read, so nothing behind the config knows presets: a job has their numbers.
 */
import type { ImageSettings } from '../codecs/image/image.ts';
import { badConfig } from '../contract/errors.ts';
import { suggest } from '../contract/suggest.ts';
import { type ImageChoice, overrideImage } from '../pipeline/bind/image-choice.ts';
import type { Value } from './value.ts';

type Numbers = Pick<ImageSettings, 'channels' | 'scale' | 'mean' | 'std'>;

/** value = (pixel × scale − mean) / std; means and stds are in the order of `channels`. `about` is for lists. */
export const IMAGE_PRESETS = {
  torch: {
    about: 'RGB with mean and std of ImageNet: torchvision, timm',
    channels: 'rgb',
    scale: 1 / 255,
    mean: [0.485, 0.456, 0.406],
    std: [0.229, 0.224, 0.225],
  },
  keras: {
    about: 'RGB 0..255, for Keras nets that rescale inside: EfficientNet, MobileNetV3, ConvNeXt',
    channels: 'rgb',
    scale: 1,
    mean: [0],
    std: [1],
  },
  tf: {
    about: 'RGB −1..1, mode "tf" of Keras: MobileNet, Inception, Xception, ResNetV2',
    channels: 'rgb',
    scale: 1 / 127.5,
    mean: [1],
    std: [1],
  },
  caffe: {
    about: 'BGR less the mean of ImageNet: Caffe, and mode "caffe" of Keras: ResNet50, VGG',
    channels: 'bgr',
    scale: 1,
    mean: [103.939, 116.779, 123.68],
    std: [1],
  },
  'zero-to-one': { about: 'RGB 0..1', channels: 'rgb', scale: 1 / 255, mean: [0], std: [1] },
} satisfies Readonly<Record<string, Numbers & { readonly about: string }>>;

export type PresetName = keyof typeof IMAGE_PRESETS;

const isPreset = (word: string): word is PresetName => Object.hasOwn(IMAGE_PRESETS, word);

export const PRESET_NAMES: readonly PresetName[] = Object.keys(IMAGE_PRESETS).filter(isPreset);

/** @throws bad_config for an unknown word, with the one that was probably meant */
export function presetOf(value: Value): PresetName | undefined {
  if (typeof value !== 'string') return undefined;
  const word = value.trim().toLowerCase();
  if (isPreset(word)) return word;
  const near = suggest(word, PRESET_NAMES);
  const meant = near === undefined ? '.' : `; did you mean ${near}?`;
  const shown = JSON.stringify(value.slice(0, 60));
  throw badConfig(
    `unknown preset ${shown}${meant} Presets are ${PRESET_NAMES.join(', ')}; other settings are keys under image`,
  );
}

/** The numbers of the preset, overridden by the settings beside it. */
export function withPreset<Settings extends ImageChoice>(own: Settings, name: PresetName | undefined) {
  if (name === undefined) return own;
  const { channels, scale, mean, std }: Numbers = IMAGE_PRESETS[name];
  return overrideImage({ channels, scale, mean, std }, own);
}
