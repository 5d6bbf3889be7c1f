/** Pictures beside what OpenCV decodes them to, made by the scripts in test/lib/codecs/image/pictures. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { decodeImage } from '../../lib/codecs/image/image.ts';

export interface Picture {
  readonly name: string;
  readonly bytes: Buffer;
  readonly width: number;
  readonly height: number;
  /** Hash of the RGB pixels. */
  readonly sha256: string;
  /** Part of our message, instead of the size and the pixels, of a picture that we refuse. */
  readonly refused?: string;
}

/** @param name of the file, without .jsonl.gz */
export function picturesOf(name: string): Picture[] {
  const file = new URL(`../lib/codecs/image/pictures/${name}.jsonl.gz`, import.meta.url);
  const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');
  return lines.map((line) => {
    const picture = JSON.parse(line) as Picture & { readonly bytes: string };
    return { ...picture, bytes: Buffer.from(picture.bytes, 'base64') };
  });
}

/** The bytes of a picture of `bmp`, `gif` or `tiff`, which its name begins with. */
export function pictureBytes(name: string): Buffer {
  const picture = picturesOf(name.replace(/-.*/, '')).find((one) => one.name === name);
  if (picture === undefined) throw new Error(`no picture ${name}`);
  return picture.bytes;
}

/** The names of pictures that do not decode to the very pixels of OpenCV, with what they decode to instead. */
export async function differing(pictures: readonly Picture[]): Promise<string[]> {
  const found = await Promise.all(
    pictures.map(async ({ name, bytes, ...expected }) => {
      const { width, height, data } = await decodeImage(bytes);
      const actual = { width, height, sha256: createHash('sha256').update(data).digest('hex') };
      return JSON.stringify(actual) === JSON.stringify(expected) ? [] : [`${name}: ${width}x${height}`];
    }),
  );
  return found.flat();
}
