/**
 * Limits concurrent requests. When a client leaves, or may have left, its request frees its slot at once, but what runs in
 * its handler goes on. These handlers are limited too; otherwise opening and closing connections would accumulate them.
 */
/** How many handlers may run per slot, including those whose client left. */
const HANDLERS_PER_PLACE = 4;

/** A place for one request. */
export interface Slot {
  /** The client has left, or may have: it does not count as waiting. */
  readonly abandon: () => void;
  /** The client is still there. */
  readonly resume: () => void;
  /** To call once, when the handler has ended. */
  readonly release: () => void;
}

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

  take(): Slot {
    this.#taken += 1;
    let state: 'taken' | 'left' | 'released' = 'taken';
    return {
      abandon: () => {
        if (state !== 'taken') return;
        state = 'left';
        this.#taken -= 1;
        this.#left += 1;
      },
      resume: () => {
        if (state !== 'left') return;
        state = 'taken';
        this.#left -= 1;
        this.#taken += 1;
      },
      release: () => {
        if (state === 'left') this.#left -= 1;
        else this.#taken -= 1;
        state = 'released';
      },
    };
  }
}
