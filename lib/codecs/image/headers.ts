/** Sizes of BMP, GIF and TIFF pictures. Their decoders are loaded at the first such picture and check the rest. */
import { assertReaches, broken, unsupported } from './refusal.ts';
import { begins } from './signatures.ts';
import { tiffDirectory, tiffNumbers } from './tiff-directory.ts';

interface Header {
  /** In pixels as stored. */
  readonly width: number;
  readonly height: number;
  /** Their pixels always count as decoded, even those that are RGB in the file. */
  readonly isColor: false;
}

/** @throws bad_input when it is cut or has no pixels */
export function readBmpHeader(bytes: Uint8Array): Header {
  assertReaches('BMP', bytes, 26);
  const view = viewOf(bytes);
  // The header of OS/2, of 12 bytes, has sizes of 16 bits.
  if (view.getUint32(14, true) === 12)
    return header('BMP', view.getUint16(18, true), view.getUint16(20, true));
  // A negative height: the rows are stored from the top.
  return header('BMP', view.getInt32(18, true), Math.abs(view.getInt32(22, true)));
}

/** The size of the screen that the frames are drawn on. @throws bad_input when it is cut or has no pixels */
export function readGifHeader(bytes: Uint8Array): Header {
  assertReaches('GIF', bytes, 13);
  const view = viewOf(bytes);
  return header('GIF', view.getUint16(6, true), view.getUint16(8, true));
}

/** @throws bad_input for a broken directory or no pixels, unsupported_media_type for BigTIFF */
export function readTiffHeader(bytes: Uint8Array): Header {
  if (begins(bytes, 'II+', 'MM\0+')) throw unsupported('BigTIFF', 'TIFF');
  const directory = tiffDirectory(bytes);
  if (directory === undefined) throw broken('TIFF', 'it has no directory');
  assertReaches('TIFF', bytes, directory.end);
  const [width, height] = [256, 257].map((tag) => tiffNumbers(bytes, tag, 1)?.[0]);
  if (width === undefined || height === undefined) {
    throw broken('TIFF', 'its directory has no width (tag 256) or no height (tag 257)');
  }
  return header('TIFF', width, height);
}

function header(format: string, width: number, height: number): Header {
  if (width < 1 || height < 1) throw broken(format, `its header says ${width}x${height} pixels`);
  return { width, height, isColor: false };
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
