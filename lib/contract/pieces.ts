/**
 * A file that is kept in pieces, below a key that ends in a slash: what is uploaded as it comes has no length at first, and the S3 of one
 * machine holds an object as a whole.
 */

/** Each piece but the last has as many bytes. */
export const PIECE_BYTES = 8 * 1024 * 1024;

export function pieceKey(key: string, place: number): string {
  return `${key}${String(place).padStart(6, '0')}`;
}
