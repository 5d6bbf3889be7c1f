/** Encodes base64, in browsers too. */

/** Arguments of one call. */
const PIECE = 8_192;

export function encodeBase64(bytes: Uint8Array): string {
  if (typeof Buffer === 'function')
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  let text = '';
  for (let at = 0; at < bytes.length; at += PIECE)
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}
