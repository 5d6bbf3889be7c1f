/**
 * Lends memory that has been used before, because fresh memory costs more than the work in it: 110 kB of base64 are
 * decoded in 4 us, and the page faults of a new buffer take 45. The next borrower overwrites it, so nothing in it may
 * be used after `withScratch` has ended.
 */
import type { Tensor } from '../../contract/tensor.ts';

/** The alignment of a record's tensors, which suits every element type and whole cache lines. */
const ALIGN_BYTES = 64;
/** The memory that an environment keeps of each scratch, more than an SQS event (6 MB). */
const KEPT_BYTES = 16 * 1024 * 1024;
/** One for a chunk's messages, one for its run. More are in use only if several events run at once, as locally. */
const KEPT = 2;

export class Scratch {
  #memory = Buffer.alloc(0);
  #used = 0;

  /**
   * Returns `bytes` with arbitrary content. If there are too few, fresh ones are returned, and the next time there
   * are enough.
   */
  take(bytes: number): Buffer {
    const start = this.#used;
    this.#used += Math.ceil(bytes / ALIGN_BYTES) * ALIGN_BYTES;
    if (this.#used > this.#memory.length) return Buffer.allocUnsafe(bytes);
    return this.#memory.subarray(start, start + bytes);
  }

  /** True if `data` is in memory taken here. */
  owns(data: Tensor['data']): boolean {
    return 'buffer' in data && data.buffer === this.#memory.buffer;
  }

  /** From now on everything that was taken may be overwritten. */
  clear(): void {
    const wanted = Math.min(this.#used, KEPT_BYTES);
    if (wanted > this.#memory.length) this.#memory = Buffer.allocUnsafeSlow(wanted);
    this.#used = 0;
  }
}

const idle: Scratch[] = [];

/** @param use must not return memory that was taken */
export async function withScratch<T>(use: (scratch: Scratch) => Promise<T>): Promise<T> {
  const scratch = idle.pop() ?? new Scratch();
  try {
    return await use(scratch);
  } finally {
    scratch.clear();
    if (idle.length < KEPT) idle.push(scratch);
  }
}
