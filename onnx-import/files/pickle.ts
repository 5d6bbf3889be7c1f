/**
 * Reads a pickle as plain data. No global is resolved and no object is made: a call becomes a record of what would
 * have been called, with its arguments and its state, which the readers of modules and tensors interpret.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { Broken, type Machine, OPS } from './pickle-operations.ts';
import type { Pickled } from './pickled.ts';

const MAX_STEPS = 20_000_000;
const MAX_STACK = 1_000_000;

/** The value, and where the pickle ended. @throws bad_model for anything that is no pickle of protocol 0 to 5 */
export function readPickle(bytes: Uint8Array, what: string, from = 0): { value: Pickled; end: number } {
  const reader = new Reader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), from);
  try {
    return { value: reader.run(), end: reader.at };
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError)
      throw badModel(`${what}: the pickle is cut off or broken at byte ${reader.at}`, { cause: error });
    if (error instanceof Broken)
      throw badModel(`${what}: ${error.message} at byte ${reader.at}`, { cause: error });
    throw error;
  }
}

const MARK = Symbol('mark');

class Reader {
  at: number;
  readonly #file: Buffer;
  #stack: (Pickled | typeof MARK)[] = [];
  #marks = 0;
  readonly #memo = new Map<number, Pickled>();

  constructor(file: Buffer, from: number) {
    this.#file = file;
    this.at = from;
  }

  run(): Pickled {
    for (let steps = 0; steps < MAX_STEPS; steps++) {
      const code = this.#byte();
      if (code === 0x2e) return this.#pop();
      this.#step(code);
      if (this.#stack.length > MAX_STACK) throw new Broken(`the pickle's stack is over ${MAX_STACK} values`);
    }
    throw new Broken(`the pickle has over ${MAX_STEPS} steps`);
  }

  #byte(): number {
    return this.#file.readUInt8(this.at++);
  }

  #bytes(count: number): Buffer {
    if (!Number.isSafeInteger(count) || count < 0 || this.at + count > this.#file.length)
      throw new Broken('the pickle is cut off');
    this.at += count;
    return this.#file.subarray(this.at - count, this.at);
  }

  #uint(size: 1 | 2 | 4 | 8): number {
    const bytes = this.#bytes(size);
    return size === 8 ? Number(bytes.readBigUInt64LE()) : bytes.readUIntLE(0, size);
  }

  #line(): string {
    const end = this.#file.indexOf(10, this.at);
    if (end < 0) throw new Broken('the pickle is cut off');
    const text = this.#file.toString('utf8', this.at, end);
    this.at = end + 1;
    return text;
  }

  #pop(): Pickled {
    const value = this.#stack.pop();
    if (value === undefined || value === MARK) throw new Broken('the pickle takes a value that is not there');
    return value;
  }

  #top(): Pickled {
    const value = this.#stack.at(-1);
    if (value === undefined || value === MARK) throw new Broken('the pickle takes a value that is not there');
    return value;
  }

  #toMark(): Pickled[] {
    const at = this.#marks === 0 ? -1 : this.#stack.lastIndexOf(MARK);
    if (at < 0) throw new Broken('the pickle takes a mark that is not there');
    const values = this.#stack.slice(at + 1) as Pickled[];
    this.#stack.length = at;
    this.#marks -= 1;
    return values;
  }

  #push(value: Pickled): void {
    this.#stack.push(value);
  }

  #get(index: number): void {
    const value = this.#memo.get(index);
    if (value === undefined) throw new Broken('the pickle takes a memo that is not there');
    this.#push(value);
  }

  #step(code: number): void {
    const op = OPS[code];
    if (!op) throw new Broken(`no pickle, or its operation 0x${code.toString(16)} is not read`);
    op(this.#api);
  }

  readonly #api: Machine = {
    byte: () => this.#byte(),
    uint: (size) => this.#uint(size),
    bytes: (count) => this.#bytes(count),
    line: () => this.#line(),
    pop: () => this.#pop(),
    top: () => this.#top(),
    toMark: () => this.#toMark(),
    push: (value) => this.#push(value),
    mark: () => {
      this.#marks += 1;
      this.#stack.push(MARK);
    },
    popAny: () => {
      if (this.#stack.pop() === MARK) this.#marks -= 1;
    },
    get: (index) => this.#get(index),
    put: (index) => {
      this.#memo.set(index, this.#top());
    },
    memoize: () => {
      this.#memo.set(this.#memo.size, this.#top());
    },
  };
}
