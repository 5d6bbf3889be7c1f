/** Images that clients upload, checked by their headers before any process gets them. */
import { assertImage, decodeImage } from '../../codecs/image/image.ts';
import type { Value } from '../../contract/values.ts';
import { encodePng } from './png.ts';

/** @throws bad_input, unsupported_media_type or too_large for what no worker can open */
export function imageItem(bytes: Uint8Array): Value {
  assertImage(bytes);
  return { kind: 'image', bytes };
}

/**
 * The image in color: one that is grey, or has a palette or alpha, becomes a PNG of its pixels.
 * @throws as `imageItem`
 */
export async function rgbImage(bytes: Uint8Array): Promise<Uint8Array> {
  return assertImage(bytes).isColor ? bytes : encodePng(await decodeImage(bytes));
}
