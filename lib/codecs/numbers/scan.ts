/**
 * Reads nested arrays of JSON numbers in a third of the time of JSON.parse, in WebAssembly (scan.wat), which reads digits
 * sixteen at a time and rounds in whole numbers of 64 bits. What it does not know, it leaves to the caller: it accepts no text
 * that JSON.parse refuses, and reads none differently.
 */
import { JsonNumbers } from '../../contract/json-numbers.ts';
import { WASM } from './wasm.ts';

// Where things are in its memory; scan.wat says what they are.
const DOUBLES = 4096;
const WHOLES = 4288;
const SHUFFLES = 4448;
const STATE = 4736;
const TEXT = 8192;
/** A window of the text is at most so long, so that its numbers stay in the processor's second cache, and take no new pages. */
const WINDOW = 16_384;
/** A number begins so far before the end of a window that it ends there. It has 71 characters at most. */
const MARGIN = 128;
/** Zeros behind the text stop the scanner. */
const ZEROS = 64;
const OUT = TEXT + WINDOW + ZEROS;
/** Fields of the state. */
const AT = 0;
const OUT_AT = 1;
const LEAF = 3;
const BEHIND = 4;
const ROW = 5;
/** Of each depth from 0: how many elements its arrays have, and how many the current one has. */
const LEVELS = 8;
const FIELDS = LEVELS + 2 * 17;

/** What `scan` returns. */
const AT_LIMIT = 0;
const SLOW = 2;
const ODD = 3;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

export interface Scanned {
  readonly numbers: JsonNumbers;
  readonly count: number;
  /** Where the text goes on. */
  readonly end: number;
}

/** Reads the array that begins at a place of the text; undefined for what is not a full array of finite numbers alone. */
export type ScanArray = (start: number) => Scanned | undefined;

interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly scan: (limit: number) => number;
}

/** Opens the scanner: what it returns reads one text after the other. */
export async function openScanner(): Promise<(text: string) => ScanArray> {
  const module = await WebAssembly.compile(Buffer.from(WASM, 'base64'));
  const { memory, scan } = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
  writeTables(memory.buffer);
  const window = new Uint8Array(memory.buffer, TEXT, WINDOW + ZEROS);
  const state = new Int32Array(memory.buffer, STATE, FIELDS);
  const doubles = new Float64Array(memory.buffer, OUT, WINDOW / 2);
  const encoder = new TextEncoder();

  const field = (index: number) => state[index] as number;

  return (text) => {
    // The window holds the characters from here on, each a byte; the scanner stops at `limit`.
    let from = 0;
    let limit = 0;

    /** Returns false for a window with other characters than those of ASCII, whose bytes would have other places. */
    function load(start: number): boolean {
      const { read, written } = encoder.encodeInto(text.slice(start, start + WINDOW), window);
      window.fill(0, written, written + ZEROS);
      from = start;
      limit = TEXT + written + (start + read === text.length ? ZEROS : -MARGIN);
      return read === written;
    }

    /** Reads the next number as JSON.parse does. Returns false for one that is too large. */
    function readSlowly(): boolean {
      NUMBER.lastIndex = from + field(AT) - TEXT;
      const [found = ''] = NUMBER.exec(text) ?? [];
      const number = Number(found);
      doubles[(field(OUT_AT) - OUT) / 8] = number;
      state[OUT_AT] = field(OUT_AT) + 8;
      state[AT] = field(AT) + found.length;
      state[BEHIND] = 1;
      return found !== '' && Number.isFinite(number);
    }

    function scanWindow(): number {
      let status = scan(limit);
      while (status === SLOW) {
        if (!readSlowly()) return ODD;
        status = field(AT) < limit ? scan(limit) : AT_LIMIT;
      }
      return status;
    }

    return (start) => {
      const parts: Float64Array[] = [];
      let count = 0;
      state.fill(0);
      for (let at = start; ; ) {
        if ((at < from || TEXT + at - from >= limit) && !load(at)) return undefined;
        state[AT] = TEXT + at - from;
        state[OUT_AT] = OUT;
        const status = scanWindow();
        if (status === ODD) return undefined;
        at = from + field(AT) - TEXT;
        const bytes = field(OUT_AT) - OUT;
        if (bytes > 0) parts.push(doubles.slice(0, bytes / 8));
        count += bytes / 8;
        // The row that is under way began before what comes next.
        state[ROW] = field(ROW) - bytes;
        if (status === AT_LIMIT) continue;
        const shape = Array.from({ length: field(LEAF) }, (_, axis) => field(LEVELS + 2 * (axis + 1)));
        return { numbers: new JsonNumbers(shape, parts, text.slice(start, at)), count, end: at };
      }
    };
  };
}

/** The powers of ten, and of five as the algorithm of Eisel and Lemire has them: 128 bits each, rounded down, those of a fraction up. */
function writeTables(memory: ArrayBuffer): void {
  const view = new DataView(memory);
  for (let q = -128; q < 128; q++) {
    const five = 5n ** BigInt(Math.abs(q));
    const bits = BigInt(five.toString(2).length);
    const power = q < 0 ? (1n << (bits + 127n)) / five + 1n : (five << 128n) >> bits;
    view.setBigUint64(16 * (q + 128), power >> 64n, true);
    view.setBigUint64(16 * (q + 128) + 8, BigInt.asUintN(64, power), true);
  }
  for (let i = 0; i <= 22; i++) view.setFloat64(DOUBLES + 8 * i, Number(`1e${i}`), true);
  for (let i = 0; i < 20; i++) view.setBigUint64(WHOLES + 8 * i, 10n ** BigInt(i), true);
  for (let count = 0; count <= 16; count++)
    for (let i = 0; i < 16; i++)
      view.setUint8(SHUFFLES + 16 * count + i, i < 16 - count ? 255 : i - (16 - count));
}
