/** The pictures of test/fixtures/pictures; make.py there makes them, and shows OpenCV's pixels of one. */
import { readFileSync } from 'node:fs';

export interface Picture {
  readonly name: string;
  readonly bytes: Buffer;
  /** Size and the first 16 digits of the SHA-256 of OpenCV's RGB pixels; null when OpenCV refuses the picture. */
  readonly opencv: string | null;
  /** Part of the message of a picture that we refuse. */
  readonly refused?: string;
}

const FILE = new URL('../fixtures/pictures/pictures.jsonl', import.meta.url);

export const PICTURES: readonly Picture[] = readFileSync(FILE, 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => {
    const picture = JSON.parse(line) as Picture & { readonly bytes: string };
    return { ...picture, bytes: Buffer.from(picture.bytes, 'base64') };
  });

export function pictureBytes(name: string): Buffer {
  const picture = PICTURES.find((one) => one.name === name);
  if (picture === undefined) throw new Error(`no picture ${name}`);
  return picture.bytes;
}
