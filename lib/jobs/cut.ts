/**
 * Finds where the rows of NDJSON and CSV end, in bytes that arrive in pieces. A byte range cannot be cut blindly: a cell of CSV may
 * hold line breaks. Rows end where lib/codecs/csv-reader.ts ends them, and after a cell that it refuses at the next line break, so that a
 * bad row is alone.
 */

/** `openai`: lines that are requests of a batch. */
export type TableFormat = 'ndjson' | 'csv' | 'openai';

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;

/** In front of a cell, in one without quotes, in one with them, and after a quote in that. */
type State = 'cell' | 'plain' | 'quoted' | 'quote';

export class RowCutter {
  readonly #isCsv: boolean;
  #state: State = 'cell';
  /** The last byte ended a row, unless a line feed follows. */
  #isReturned = false;
  #isBlank = true;

  constructor(format: TableFormat) {
    this.#isCsv = format === 'csv';
  }

  /** True if nothing but blanks has come since the last row. */
  get isBlank(): boolean {
    return this.#isBlank;
  }

  /** Begins the next row. */
  begin(): void {
    this.#state = 'cell';
    this.#isReturned = false;
    this.#isBlank = true;
  }

  /**
   * @returns the place after the row's line break, which is `from` where the row ended with the piece before; -1: the row goes on
   * behind these bytes
   */
  end(bytes: Uint8Array, from: number): number {
    return this.#isCsv ? this.#endOfRow(bytes, from) : this.#endOfLine(bytes, from);
  }

  #endOfLine(bytes: Uint8Array, from: number): number {
    const found = bytes.indexOf(LINE_FEED, from);
    const end = found === -1 ? bytes.length : found;
    for (let at = from; this.#isBlank && at < end; at++) this.#isBlank = isBlank(bytes[at]);
    return found === -1 ? -1 : found + 1;
  }

  #endOfRow(bytes: Uint8Array, from: number): number {
    let at = from;
    if (this.#isReturned && at < bytes.length) return bytes[at] === LINE_FEED ? at + 1 : at;
    let state = this.#state;
    for (; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (state === 'quoted') {
        if (byte === QUOTE) state = 'quote';
        continue;
      }
      if (byte === LINE_FEED) return at + 1;
      if (byte === CARRIAGE_RETURN) {
        if (at + 1 < bytes.length) return bytes[at + 1] === LINE_FEED ? at + 2 : at + 1;
        this.#isReturned = true;
        break;
      }
      if (byte === COMMA) state = 'cell';
      else if (byte === QUOTE) state = state === 'plain' ? 'plain' : 'quoted';
      else if (state !== 'cell' || !isBlank(byte)) state = 'plain';
      if (!isBlank(byte)) this.#isBlank = false;
    }
    this.#state = state;
    return -1;
  }
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB || byte === CARRIAGE_RETURN;
}
