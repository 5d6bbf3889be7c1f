/**
 * Keeps pairs of channels-last values and their channels-first counterparts, so that a chain of convolutions and
 * elementwise operations is transposed once at each end. A pair created inside a loop's body is not visible outside,
 * so each body has its own Layouts.
 */

import { unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Attributes, Value } from '../../graph/value.ts';
import { transpose } from './dims.ts';
import { emit } from './kernels.ts';

/**
 * Maps a channels-last value to the channels-first value it was transposed from, which is visible wherever the key
 * is.
 */
const ORIGINS = new WeakMap<Value, Value>();

export class Layouts {
  readonly #made = new Map<Value, Value>();
  readonly #outer: Layouts | undefined;

  constructor(outer?: Layouts) {
    this.#outer = outer;
  }

  /** The channels-first pair, if there is one already. */
  pair(value: Value): Value | undefined {
    return ORIGINS.get(value) ?? this.#made.get(value) ?? this.#outer?.pair(value);
  }

  /** Returns the channels-first pair, transposing if there is none. */
  first(g: GraphBuilder, value: Value): Value {
    const pair = this.pair(value);
    if (pair) return pair;
    const made = transpose(g, value, toFirst(value.shape?.length ?? 4), value.name);
    this.#made.set(value, made);
    return made;
  }

  /** Transposes back to channels-last. The transpose disappears when only the pair is used. */
  last(g: GraphBuilder, value: Value, hint?: string): Value {
    const size = value.shape?.length ?? 4;
    const made = transpose(g, value, [0, ...Array.from({ length: size - 2 }, (_, i) => i + 2), 1], hint);
    ORIGINS.set(made, value);
    return made;
  }

  /** Adds an elementwise operation, on the pairs if an input has one. */
  elementwise(
    g: GraphBuilder,
    op: string,
    inputs: readonly (Value | undefined)[],
    attributes: Attributes = {},
    hint?: string,
  ): Value {
    const pairs = inputs.map((input) => input && ORIGINS.get(input));
    const size = pairs.find((pair) => pair)?.shape?.length;
    const lifted = size === undefined ? undefined : this.#lift(g, inputs, size);
    if (!lifted) return emit(g, op, inputs, attributes, hint);
    return this.last(g, emit(g, op, lifted, attributes, hint), hint);
  }

  /** Returns all inputs channels-first, or undefined when the rank of one is unknown or too large. */
  #lift(
    g: GraphBuilder,
    inputs: readonly (Value | undefined)[],
    size: number,
  ): (Value | undefined)[] | undefined {
    const fits = (input: Value | undefined) => !input || (input.shape && input.shape.length <= size);
    if (!inputs.every(fits)) return undefined;
    return inputs.map((input) => {
      const shape = input?.shape;
      if (!input || !shape || shape.length === 0 || (shape.length === 1 && shape[0] === 1)) return input;
      if (shape.length === size) return this.first(g, input);
      // [C] becomes [C,1,1] without a transpose.
      if (shape.length === 1)
        return unsqueeze(
          g,
          input,
          Array.from({ length: size - 2 }, (_, i) => i + 1),
        );
      const missing = Array.from({ length: size - shape.length }, (_, i) => i);
      return transpose(g, unsqueeze(g, input, missing), toFirst(size));
    });
  }
}

function toFirst(size: number): number[] {
  return [0, size - 1, ...Array.from({ length: size - 2 }, (_, i) => i + 1)];
}

/** The position of a channels-last axis in the channels-first pair. */
export function axisInTwin(axis: number, size: number): number {
  if (axis === 0) return 0;
  return axis === size - 1 ? 1 : axis + 1;
}
