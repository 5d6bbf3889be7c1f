/**
 * The slots of Redis Cluster: a key belongs to one of 16,384, and a script reaches the keys of one only. The text between
 * the first braces of a key decides, so a short tag in front puts a key into the slot of any other key.
 */

export const SLOTS = 16_384;

/** The tag of each slot: the first number in base 36 that falls into it. Counted only as far as a tag was needed. */
const tags: string[] = [];
let counted = 0;
/** CRC-16/XMODEM of each byte. */
let crcs: readonly number[] | undefined;

/** Braces count as Redis counts them: `{}` and a single `{` decide nothing. */
export function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = key.indexOf('}', open + 1);
  const hashed = open >= 0 && close > open + 1 ? key.slice(open + 1, close) : key;
  crcs ??= Array.from({ length: 256 }, (_, byte) => crcOf(byte));
  let crc = 0;
  for (const byte of Buffer.from(hashed)) crc = ((crc << 8) & 0xffff) ^ (crcs[(crc >> 8) ^ byte] ?? 0);
  return crc % SLOTS;
}

/** The same text for a slot in every release, because keys are named after it. */
export function tagOf(slot: number): string {
  while (tags[slot] === undefined) {
    const text = (counted++).toString(36);
    tags[slotOf(text)] ??= text;
  }
  return tags[slot];
}

function crcOf(byte: number): number {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  return crc;
}
