/**
 * The progress of a replay: a line for each time that the model was asked, with what was found then. A replay asks the same in the same
 * order, so one that was stopped reads them instead of asking again. They hold differences, and no value of a record.
 */
import { createReadStream } from 'node:fs';
import { type FileHandle, open, truncate } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';
import type { Compared } from './compare.ts';

/** One record that was asked. */
export interface Asked {
  /** The code with which it fails; undefined for an answer. */
  readonly code?: string | undefined;
  readonly compared?: readonly Compared[];
  /** True: it had the same row of as many rows. */
  readonly isSamePlace?: boolean;
}

interface Entry {
  readonly number: number;
  readonly runtime?: unknown;
  readonly asked?: readonly Asked[];
}

/** Bytes that are kept; a longer replay asks the rest again. */
const MOST_BYTES = 256 * 1024 * 1024;
/** JSON has none. */
const INFINITE = 'Infinity';

export class Journal {
  readonly #file: string;
  readonly #lines: AsyncIterator<string>;
  #out: FileHandle | undefined;
  /** Bytes of the lines that hold. A line begins with its line break, so that one that was cut is not JSON. */
  #bytes = 0;
  #number = 0;

  private constructor(file: string) {
    this.#file = file;
    this.#lines = createInterface({ input: createReadStream(file, 'utf8') })[Symbol.asyncIterator]();
  }

  /** @param file whose first line is not of the journal. @param runtime under which its lines hold */
  static async open(file: string, runtime: object): Promise<Journal> {
    const journal = new Journal(file);
    const { value = '' } = await journal.#lines.next();
    journal.#bytes = Buffer.byteLength(value);
    const known = await journal.#read(({ runtime: found }) => isDeepStrictEqual(found, plain(runtime)));
    if (!known) await journal.#write({ number: 0, runtime });
    return journal;
  }

  /** @returns what was found at this place before, or what `ask` finds now */
  async through(records: number, ask: () => Promise<readonly Asked[]>): Promise<readonly Asked[]> {
    const known = await this.#read(({ asked }) => asked?.length === records);
    if (known?.asked) return known.asked;
    const asked = await ask();
    await this.#write({ number: this.#number, asked });
    return asked;
  }

  async close(): Promise<void> {
    await this.#lines.return?.();
    await this.#out?.close();
  }

  /** @returns undefined where the next line is not there, or another one: the lines end here then */
  async #read(holds: (entry: Entry) => boolean): Promise<Entry | undefined> {
    if (this.#out) return undefined;
    const { value, done } = await this.#lines.next();
    const entry = done ? undefined : entryOf(value);
    if (entry?.number === this.#number && holds(entry)) {
      this.#number++;
      this.#bytes += 1 + Buffer.byteLength(value);
      return entry;
    }
    await truncate(this.#file, this.#bytes);
    this.#out = await open(this.#file, 'a');
    return undefined;
  }

  async #write(entry: Entry): Promise<void> {
    const line = `\n${JSON.stringify(entry, (_, value) => (value === Infinity ? INFINITE : value))}`;
    this.#number++;
    this.#bytes += Buffer.byteLength(line);
    if (this.#bytes > MOST_BYTES) return;
    // A full disk costs the progress, and not the replay.
    await this.#out?.write(line).catch(() => (this.#bytes = Infinity));
  }
}

function entryOf(line: string): Entry | undefined {
  try {
    return JSON.parse(line, (key, value) => (key === 'distance' && value === INFINITE ? Infinity : value));
  } catch {
    return undefined;
  }
}

/** As JSON brings it back. */
function plain(value: object): unknown {
  return JSON.parse(JSON.stringify(value));
}
