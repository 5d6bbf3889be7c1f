/**
 * The formats of pictures, recognised by their first bytes. Headers are read at once, so that limits can be checked;
 * a decoder other than those of JPEG and PNG is a module that is loaded at the first picture that needs it.
 */
import { readBmpHeader, readGifHeader, readTiffHeader } from './headers.ts';
import { decodeJpeg, readJpegHeader } from './jpeg.ts';
import type { Pixels } from './pixels.ts';
import { decodePng, readPngHeader } from './png.ts';
import { isBmp, isGif, isJpeg, isPng, isTiff, isWebp } from './signatures.ts';
import { readWebp } from './webp/header.ts';

export interface ImageHeader {
  /** In pixels as stored; an EXIF orientation of 5 to 8 swaps the two when the image is decoded. */
  readonly width: number;
  readonly height: number;
  /** True if each pixel is stored as three samples of 8 bits: no grey, palette or alpha. */
  readonly isColor: boolean;
}

export interface ImageFormat {
  /** As errors name it. */
  readonly name: string;
  readonly mediaType: string;
  is(bytes: Uint8Array): boolean;
  /** @throws bad_input for a broken header, unsupported_media_type for a kind that is not decoded */
  readHeader(bytes: Uint8Array): ImageHeader;
  /** The caller has compared `readHeader` with the pixel limit. @throws as `readHeader`; bad_input for damaged data */
  decode(bytes: Uint8Array): Pixels | Promise<Pixels>;
}

export const FORMATS: readonly ImageFormat[] = [
  { name: 'JPEG', mediaType: 'image/jpeg', is: isJpeg, readHeader: readJpegHeader, decode: decodeJpeg },
  { name: 'PNG', mediaType: 'image/png', is: isPng, readHeader: readPngHeader, decode: decodePng },
  {
    name: 'WebP',
    mediaType: 'image/webp',
    is: isWebp,
    readHeader: readWebp,
    decode: async (bytes) => (await import('./webp/decode.ts')).decodeWebp(bytes),
  },
  {
    name: 'BMP',
    mediaType: 'image/bmp',
    is: isBmp,
    readHeader: readBmpHeader,
    decode: async (bytes) => (await import('./bmp.ts')).decodeBmp(bytes),
  },
  {
    name: 'GIF',
    mediaType: 'image/gif',
    is: isGif,
    readHeader: readGifHeader,
    decode: async (bytes) => (await import('./gif.ts')).decodeGif(bytes),
  },
  {
    name: 'TIFF',
    mediaType: 'image/tiff',
    is: isTiff,
    readHeader: readTiffHeader,
    decode: async (bytes) => (await import('./tiff.ts')).decodeTiff(bytes),
  },
];

/** The names of the formats as a sentence has them: `JPEG, PNG, WebP, BMP, GIF or TIFF`. */
export const FORMAT_NAMES: string = FORMATS.map(({ name }) => name)
  .join(', ')
  .replace(/, (\w+)$/, ' or $1');

/** Formats that are not decoded, to name them in the error: bytes (latin1) at an offset. */
const FOREIGN: readonly (readonly [offset: number, magic: string, name: string])[] = [
  [4, 'ftypavi', 'AVIF'],
  [4, 'ftyphei', 'HEIC'],
  [4, 'ftypmif', 'HEIC'],
  [4, 'jP  ', 'JPEG 2000'],
  [0, '\xff\x4f\xff\x51', 'JPEG 2000'],
  [4, 'JXL ', 'JPEG XL'],
  [0, '\xff\x0a', 'JPEG XL'],
  [0, '%PDF', 'PDF'],
];
const SVG = /^(\xef\xbb\xbf)?\s*<(\?xml|svg|!DOCTYPE svg)/i;

/** The name of a format that is not decoded. @param head the first bytes as latin1 */
export function foreignFormat(head: string): string | undefined {
  if (SVG.test(head)) return 'SVG';
  return FOREIGN.find(([offset, magic]) => head.startsWith(magic, offset))?.[2];
}
