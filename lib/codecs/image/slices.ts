/**
 * Decodes large pictures in slices, between which the thread serves others. A slice is a number of pixels and not a time, because
 * codecs have no clock: the slowest decoder written here takes less than 100 ms for one.
 */

/** Yields behind each slice of its work but the last. */
export type Slices<T> = Generator<undefined, T, undefined>;

export const SLICE_PIXELS = 1_048_576;

/** The result at once when the work is one slice, as for most pictures. */
export function inSlices<T>(work: Slices<T>): T | Promise<T> {
  const { done, value } = work.next();
  return done ? value : finish(work);
}

async function finish<T>(work: Slices<T>): Promise<T> {
  for (;;) {
    await nextTurn();
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Resolves when others had the thread. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Counts pixels. `isOver` is true once a slice of them is full, and begins the next one. */
export class SliceCount {
  #pixels = 0;

  isOver(pixels: number): boolean {
    this.#pixels += pixels;
    if (this.#pixels < SLICE_PIXELS) return false;
    this.#pixels = 0;
    return true;
  }
}
