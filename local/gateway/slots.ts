/**
 * In: requests that begin, clients that leave, handlers that end. Out: whether one more request has a place.
 * Trap: a handler cannot be ended from outside. A client that left no longer takes a place, but its handler still runs,
 * so those are counted too: else opening and closing connections would pile them up without limit.
 */
import type { ServerResponse } from 'node:http';

/** Handlers that may run for each place, those of clients that left included. */
const HANDLERS_PER_PLACE = 4;

export class Slots {
  readonly #limit: number;
  /** Requests with a client that waits. */
  #taken = 0;
  /** Handlers that still run for a client that left. */
  #left = 0;

  /** @param limit of requests whose client waits */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#taken >= this.#limit || this.#taken + this.#left >= HANDLERS_PER_PLACE * this.#limit;
  }

  /** @returns to be called once, when the handler has ended */
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
