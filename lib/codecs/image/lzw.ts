/**
 * LZW as GIF and TIFF have it: GIF fills bytes from the lowest bit, TIFF from the highest, and in TIFF codes grow one
 * code earlier. Every text of the table has been written before, so the table holds places in the output.
 */
import { broken, tooLong, tooShort } from './refusal.ts';
import { SLICE_PIXELS, type Slices } from './slices.ts';

const CODES = 4_096;
/** A full table of codes of 12 bits: the longest text is as long as the table. */
export const LZW_RATIO = 2_731;

/** Between two slices. */
interface LzwState {
  readonly places: Int32Array;
  readonly lengths: Int32Array;
  next: number;
  width: number;
  held: number;
  count: number;
  from: number;
  to: number;
  /** Bytes of the text before, which ends at `to`; 0 after a clear. */
  before: number;
}

/**
 * Fills `out`.
 * @param bits of a literal: 2 to 8
 * @throws bad_input for codes that do not exist, and for more or fewer bytes
 */
export function* expandLzw(
  format: 'GIF' | 'TIFF',
  bits: number,
  packed: Uint8Array,
  out: Uint8Array,
): Slices<void> {
  const [places, lengths] = [new Int32Array(CODES), new Int32Array(CODES)];
  const start = { next: (1 << bits) + 2, width: bits + 1, held: 0, count: 0, from: 0, to: 0, before: 0 };
  const state: LzwState = { places, lengths, ...start };
  while (!expandSlice(format, bits, packed, out, state)) yield;
  if (state.to < out.length) throw tooShort(format, state.to, out.length);
}

/** Returns whether the end is reached. */
function expandSlice(
  format: 'GIF' | 'TIFF',
  bits: number,
  packed: Uint8Array,
  out: Uint8Array,
  state: LzwState,
): boolean {
  // As constants of the function, because fields of an object or an array are loaded again for each code.
  const { places, lengths } = state;
  const available = packed.length;
  const size = out.length;
  const upwards = format === 'GIF';
  const early = upwards ? 0 : 1;
  const clear = 1 << bits;
  let { next, width, held, count, from, to, before } = state;
  const pause = to + SLICE_PIXELS;
  while (to < pause) {
    while (count < width && from < available) {
      const byte = packed[from++]!;
      held = upwards ? held | (byte << count) : (held << 8) | byte;
      count += 8;
    }
    if (count < width) break;
    count -= width;
    const code = (upwards ? held : held >> count) & ((1 << width) - 1);
    if (upwards) held >>= width;
    if (before > 0 && next < CODES) {
      // The text before and the first byte of the one that comes now.
      places[next] = to - before;
      lengths[next] = before + 1;
      next++;
      if (next + early === 1 << width && width < 12) width++;
    }
    if (code < clear && to < size) {
      out[to++] = code;
      before = 1;
      continue;
    }
    if (code === clear) {
      next = clear + 2;
      width = bits + 1;
      before = 0;
      continue;
    }
    // Without an end code, the unused bits of the last byte look like one more code.
    if (code === clear + 1 || (to === size && from === available)) break;
    if (code >= next) throw broken(format, `its image data is damaged: code ${code} does not exist yet`);
    before = code < clear ? 1 : lengths[code]!;
    const end = to + before;
    if (end > size) throw tooLong(format, size);
    // Byte by byte: a text may end with its own first byte.
    for (let at = places[code]!; to < end; at++) out[to++] = out[at]!;
  }
  Object.assign(state, { next, width, held, count, from, to, before });
  return to < pause;
}
