/**
 * Limits concurrent requests. A handler cannot be stopped from outside: when its client leaves, the request frees its
 * slot but the handler keeps running. These handlers are limited too; otherwise opening and closing connections would
 * accumulate them.
 */
import type { ServerResponse } from 'node:http';

/** How many handlers may run per slot, including those whose client left. */
const HANDLERS_PER_PLACE = 4;

export class Slots {
  readonly #limit: number;
  /** Requests whose client is waiting. */
  #taken = 0;
  /** Handlers that still run although their client left. */
  #left = 0;

  /** @param limit for requests whose client is waiting */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#taken >= this.#limit || this.#taken + this.#left >= HANDLERS_PER_PLACE * this.#limit;
  }

  /** @returns a function to call once, when the handler has ended */
  take(response: ServerResponse): () => void {
    this.#taken += 1;
    let isLeft = false;
    const onClose = () => {
      isLeft = true;
      this.#taken -= 1;
      this.#left += 1;
    };
    response.once('close', onClose);
    return () => {
      response.off('close', onClose);
      if (isLeft) this.#left -= 1;
      else this.#taken -= 1;
    };
  }
}
