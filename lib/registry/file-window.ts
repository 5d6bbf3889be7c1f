/** Reads single bytes of a file that is too large for the memory, with a window of what follows them. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const WINDOW_BYTES = 64 * 1024;

export class FileWindow {
  /** In bytes. */
  readonly size: number;
  readonly #fd: number;
  readonly #window = Buffer.alloc(WINDOW_BYTES);
  #start = 0;
  #length = 0;

  /** @throws the file system's error */
  constructor(path: string) {
    this.#fd = openSync(path, 'r');
    this.size = fstatSync(this.#fd).size;
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** @returns undefined behind the end of the file */
  byte(at: number): number | undefined {
    if (at < this.#start || at >= this.#start + this.#length) {
      this.#start = at;
      this.#length = this.read(this.#window, at);
      if (this.#length === 0) return undefined;
    }
    return this.#window[at - this.#start];
  }

  /** @returns how many bytes were read; 0 behind the end of the file */
  read(into: Uint8Array, at: number): number {
    return readSync(this.#fd, into, 0, into.byteLength, at);
  }
}
