/**
 * SentencePiece's precompiled map of characters: a double array of their UTF-8, whose leaves are places in a list of
 * replacements. Graphemes of up to five bytes are looked up whole, as the tokenizers of Hugging Face do.
 */
import { decodeBase64 } from '../codecs/base64.ts';
import type { Part } from './part.ts';

const MOST_BYTES = 16 * 1024 * 1024;

/** @throws bad_model */
export function charsmap(part: Part): (text: string) => string {
  const text = part.text('precompiled_charsmap');
  if (text.length > MOST_BYTES)
    throw part.refused(`a charsmap of ${text.length} characters is over the limit of ${MOST_BYTES}`);
  let bytes: Uint8Array;
  try {
    bytes = decodeBase64(text);
  } catch {
    throw part.refused('precompiled_charsmap: expected base64');
  }
  if (bytes.length < 8) throw part.refused('precompiled_charsmap: it is cut off');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = view.getUint32(0, true);
  if (size % 4 !== 0 || size < 4 || size > bytes.length - 4)
    throw part.refused('precompiled_charsmap: it is cut off');
  const units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
  const lookup = lookupOf(units, bytes.subarray(4 + size));
  const segments = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  const ofChar = (char: string) => lookup(char) ?? char;
  return (input) => {
    let output = '';
    for (const { segment } of segments.segment(input)) {
      const whole = Buffer.byteLength(segment) < 6 ? lookup(segment) : undefined;
      output += whole ?? Array.from(segment, ofChar).join('');
    }
    return output;
  };
}

/** The replacement of the shortest beginning of the text that has one. */
function lookupOf(units: Uint32Array, replacements: Uint8Array): (text: string) => string | undefined {
  const offsetOf = (unit: number) => (unit >>> 10) << ((unit & 0x200) >>> 6);
  const decoder = new TextDecoder();
  return (text) => {
    let at = offsetOf(units[0] as number);
    for (const byte of Buffer.from(text)) {
      if (byte === 0) return undefined;
      at ^= byte;
      const unit = units[at] ?? 0;
      // The label of a leaf has the highest bit.
      if ((unit & 0x8000_00ff) >>> 0 !== byte) return undefined;
      at ^= offsetOf(unit);
      if ((unit & 0x100) === 0) continue;
      const start = (units[at] ?? 0) & 0x7fff_ffff;
      const end = replacements.indexOf(0, start);
      return decoder.decode(replacements.subarray(start, end === -1 ? undefined : end));
    }
    return undefined;
  };
}
