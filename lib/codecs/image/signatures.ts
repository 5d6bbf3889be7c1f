/** The first bytes of each format of pictures, without its decoder: for who only asks whether bytes are a picture. */

/** Enough for each of them, as latin1. */
const HEAD = 12;

const headOf = (bytes: Uint8Array) => String.fromCharCode(...bytes.subarray(0, HEAD));

export const begins = (bytes: Uint8Array, ...marks: readonly string[]) => {
  const head = headOf(bytes);
  return marks.some((mark) => head.startsWith(mark));
};

export const isJpeg = (bytes: Uint8Array): boolean => begins(bytes, '\xff\xd8\xff');
export const isPng = (bytes: Uint8Array): boolean => begins(bytes, '\x89PNG\r\n\x1a\n');
export const isWebp = (bytes: Uint8Array): boolean => /^RIFF.{4}WEBP/s.test(headOf(bytes));
export const isBmp = (bytes: Uint8Array): boolean => begins(bytes, 'BM');
export const isGif = (bytes: Uint8Array): boolean => begins(bytes, 'GIF87a', 'GIF89a');
/** BigTIFF too, so that its refusal names it. */
export const isTiff = (bytes: Uint8Array): boolean => begins(bytes, 'II*\0', 'MM\0*', 'II+\0', 'MM\0+');

export function isPicture(bytes: Uint8Array): boolean {
  return [isJpeg, isPng, isWebp, isBmp, isGif, isTiff].some((is) => is(bytes));
}
