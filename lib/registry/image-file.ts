/** How a model's pictures are prepared, as an import stores it beside the model. */
import { join } from 'node:path';
import { modelUnavailable } from '../contract/errors.ts';
import type { ImageChoice } from '../pipeline/bind/image-choice.ts';
import { textOf } from './names.ts';

export const IMAGE_FILE = 'image.json';

/** The settings in the file, under the keys that `image:` of config.yaml has. */
const KEYS: ReadonlySet<string> = new Set([
  'width',
  'height',
  'resize',
  'resample',
  'middle',
  'fill',
  'channels',
  'layout',
  'scale',
  'mean',
  'std',
] satisfies (keyof ImageChoice)[]);

/** Empty where there is no such file. @throws model_unavailable for a file that no import of this release writes */
export async function readImageFile(folder: string): Promise<ImageChoice> {
  const text = await textOf(folder, IMAGE_FILE);
  if (text === undefined) return {};
  try {
    const settings: unknown = JSON.parse(text);
    const isOurs =
      typeof settings === 'object' &&
      settings !== null &&
      Object.keys(settings).every((key) => KEYS.has(key));
    if (isOurs) return settings;
  } catch {
    // Told below.
  }
  throw modelUnavailable(
    `${join(folder, IMAGE_FILE)}: it is not what an import of this release writes; import the model again`,
  );
}
