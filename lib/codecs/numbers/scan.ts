/**
 * Reads nested arrays of JSON numbers in a third of the time of JSON.parse, in WebAssembly (scan.wat), which reads digits
 * sixteen at a time, and rounds with one division or in whole numbers of 64 bits. What it does not know, it leaves to the caller: it accepts no text
 * that JSON.parse refuses, and reads none differently.
 */
import {
  JsonNumbers,
  type NumberParts,
  type NumbersReader,
  type Precision,
} from '../../contract/json-numbers.ts';
import { withDigits } from '../json.ts';
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
/** So many bytes of numbers become a part: those of most pictures, in half of the processor's second cache. */
const PART = 262_144;
/** Fields of the state. */
const AT = 0;
const OUT_AT = 1;
const LEAF = 3;
const BEHIND = 4;
const ROW = 5;
const SIZE = 6;
/** For each depth from 0: how many elements its arrays have, and how many the current array has. */
const LEVELS = 8;
const FIELDS = LEVELS + 2 * 17;

/** The result of `scan`. */
const AT_LIMIT = 0;
const SLOW = 2;
const ODD = 3;

/** An exponent of more digits is left to JSON.parse: TensorFlow Serving's reader takes 16 digits for an integer of 64 bits. */
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,15})?/y;

export interface Scanned {
  readonly numbers: JsonNumbers;
  readonly count: number;
  /** Where the text goes on. */
  readonly end: number;
}

interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly scan: (limit: number) => number;
}

export class Scanner implements NumbersReader {
  precision: Precision = 'float32';
  readonly #scan: Exports['scan'];
  readonly #window: Uint8Array;
  readonly #state: Int32Array;
  readonly #doubles: Float64Array;
  readonly #singles: Float32Array;
  readonly #encoder = new TextEncoder();
  #text = '';
  /** The window holds the characters of the text from here on, each a byte. */
  #from = 0;
  /** The scanner stops here, 0 while the window holds nothing of the text. */
  #limit = 0;

  static async open(): Promise<Scanner> {
    const module = await WebAssembly.compile(Buffer.from(WASM, 'base64'));
    const { memory, scan } = new WebAssembly.Instance(module, {}).exports;
    if (!(memory instanceof WebAssembly.Memory)) throw new TypeError('the scanner exports no memory');
    return new Scanner({ memory, scan: scan as Exports['scan'] });
  }

  private constructor({ memory, scan }: Exports) {
    this.#scan = scan;
    this.#window = new Uint8Array(memory.buffer, TEXT, WINDOW + ZEROS);
    this.#state = new Int32Array(memory.buffer, STATE, FIELDS);
    this.#doubles = new Float64Array(memory.buffer, OUT, PART / 8 + WINDOW / 2);
    this.#singles = new Float32Array(memory.buffer, OUT, PART / 4 + WINDOW / 2);
    writeTables(memory.buffer);
  }

  /** The text whose arrays are read, the first one first. It is held until the next one is set. */
  set text(text: string) {
    this.#text = text;
    this.#from = 0;
    this.#limit = 0;
  }

  /** Reads the array that begins at a place of the text; undefined for what is not a full array of finite numbers alone. */
  read(start: number): Scanned | undefined {
    const found = this.#readParts(start);
    if (found === undefined) return undefined;
    const { shape, parts, count, end } = found;
    return { numbers: new JsonNumbers(shape, parts, this.#text.slice(start, end), this), count, end };
  }

  /** @throws for a text that `read` has not taken before */
  nested(text: string): unknown {
    return withDigits(JSON.parse(text), text);
  }

  again(text: string): NumberParts {
    this.text = text;
    const parts = this.#readParts(0)?.parts;
    this.text = '';
    if (parts === undefined) throw new Error('an array that was read before is read otherwise');
    return parts;
  }

  #readParts(start: number) {
    const parts: (Float32Array | Float64Array)[] = [];
    const size = this.precision === 'float32' ? 2 : 3;
    const numbers = size === 2 ? this.#singles : this.#doubles;
    let count = 0;
    this.#state.fill(0);
    this.#state[SIZE] = size;
    this.#state[OUT_AT] = OUT;
    for (let at = start; ; ) {
      if (TEXT + at - this.#from >= this.#limit && !this.#load(at)) return undefined;
      this.#state[AT] = TEXT + at - this.#from;
      const status = this.#scanWindow();
      if (status === ODD) return undefined;
      at = this.#from + this.#field(AT) - TEXT;
      const bytes = this.#field(OUT_AT) - OUT;
      if (bytes >= PART || status !== AT_LIMIT) {
        parts.push(numbers.slice(0, bytes >> size));
        count += bytes >> size;
        // The row that is under way began before what comes next.
        this.#state[ROW] = this.#field(ROW) - bytes;
        this.#state[OUT_AT] = OUT;
      }
      if (status === AT_LIMIT) continue;
      const shape = Array.from({ length: this.#field(LEAF) }, (_, axis) =>
        this.#field(LEVELS + 2 * axis + 2),
      );
      return { shape, parts: parts as NumberParts, count, end: at };
    }
  }

  /** Returns false for a window with other characters than those of ASCII, whose bytes would have other places. */
  #load(start: number): boolean {
    const part = this.#text.slice(start, start + WINDOW);
    const { read, written } = this.#encoder.encodeInto(part, this.#window);
    this.#window.fill(0, written, written + ZEROS);
    this.#from = start;
    this.#limit = TEXT + written + (start + read === this.#text.length ? ZEROS : -MARGIN);
    return written === part.length;
  }

  #scanWindow(): number {
    let status = this.#scan(this.#limit);
    while (status === SLOW) {
      if (!this.#readSlowly()) return ODD;
      status = this.#field(AT) < this.#limit ? this.#scan(this.#limit) : AT_LIMIT;
    }
    return status;
  }

  /** Reads the next number as JSON.parse does. Returns false for one that is too large. */
  #readSlowly(): boolean {
    NUMBER.lastIndex = this.#from + this.#field(AT) - TEXT;
    const [found = ''] = NUMBER.exec(this.#text) ?? [];
    const size = this.#field(SIZE);
    const number = size === 2 ? Math.fround(Number(found)) : Number(found);
    (size === 2 ? this.#singles : this.#doubles)[(this.#field(OUT_AT) - OUT) >> size] = number;
    this.#state[OUT_AT] = this.#field(OUT_AT) + (1 << size);
    this.#state[AT] = this.#field(AT) + found.length;
    this.#state[BEHIND] = 1;
    return found !== '' && Number.isFinite(number);
  }

  #field(index: number): number {
    return this.#state[index] as number;
  }
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
  for (let count = 0; count <= 16; count++) {
    for (let i = 0; i < 16; i++) {
      view.setUint8(SHUFFLES + 16 * count + i, i < 16 - count ? 255 : i - (16 - count));
    }
  }
}
