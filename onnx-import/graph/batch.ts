/** Frees the batch of models whose files fix it. */
import type { Body, Dim, Shape } from './value.ts';

/** The free dimension of a batch. */
export const BATCH = 'N';

/** Thrown when a model cannot be converted with a free batch. It never leaves the converter. */
export class BatchBound extends Error {}

/** The first size that all inputs have in common, if they have one. */
export function commonBatch(shapes: Iterable<Shape | undefined>): Dim | undefined {
  const sizes = new Set(Array.from(shapes, (shape) => shape?.[0]));
  const [batch] = sizes;
  return sizes.size === 1 ? batch : undefined;
}

/**
 * The model with a free batch, which each of its outputs must have first; undefined when there is none.
 * @param isRefusal which other errors say that there is none
 */
export function withFreeBatch<T extends { readonly graph: Body }>(
  make: () => T | undefined,
  isRefusal: (error: unknown) => boolean = () => false,
): T | undefined {
  try {
    const made = make();
    return made?.graph.outputs.every(({ value }) => value.shape?.[0] === BATCH) ? made : undefined;
  } catch (error) {
    if (error instanceof BatchBound || isRefusal(error)) return undefined;
    throw error;
  }
}

/** @param batch what became of it */
export function boundNote(batch: string): string {
  return `${batch}: its records are not independent of each other`;
}
