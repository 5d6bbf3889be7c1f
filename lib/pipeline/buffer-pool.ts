/**
 * Lends memory that has been used before, because fresh memory costs more than the work in it: 110 kB of base64 are
 * decoded in 4 us, and the page faults of a new buffer take 45. The next borrower overwrites it, so nothing that was
 * taken may be reached after `withScratch` has ended.
 */
import type { Tensor } from '../contract/tensor.ts';

/** Where a record's tensors begin: any element type fits there, and vector instructions meet whole cache lines. */
const ALIGN_BYTES = 64;
/** More than an event of SQS can hold (6 MB), and what one environment keeps of each scratch. */
const KEPT_BYTES = 16 * 1024 * 1024;
/** One for a chunk's messages, one for its run; more are in use only where several events run at once, as locally. */
const KEPT = 2;

export class Scratch {
  #memory = Buffer.alloc(0);
  #used = 0;

  /** `bytes` of any content. Fresh ones when there is too little; the next time there is enough. */
  take(bytes: number): Buffer {
    const start = this.#used;
    this.#used += Math.ceil(bytes / ALIGN_BYTES) * ALIGN_BYTES;
    if (this.#used > this.#memory.length) return Buffer.allocUnsafe(bytes);
    return this.#memory.subarray(start, start + bytes);
  }

  /** Whether `data` lies in memory that was taken here. */
  owns(data: Tensor['data']): boolean {
    return 'buffer' in data && data.buffer === this.#memory.buffer;
  }

  /** Everything that was taken may be written over from now on. */
  clear(): void {
    const wanted = Math.min(this.#used, KEPT_BYTES);
    if (wanted > this.#memory.length) this.#memory = Buffer.allocUnsafeSlow(wanted);
    this.#used = 0;
  }
}

const idle: Scratch[] = [];

/** @param use its result must hold nothing that was taken */
export async function withScratch<T>(use: (scratch: Scratch) => Promise<T>): Promise<T> {
  const scratch = idle.pop() ?? new Scratch();
  try {
    return await use(scratch);
  } finally {
    scratch.clear();
    if (idle.length < KEPT) idle.push(scratch);
  }
}
