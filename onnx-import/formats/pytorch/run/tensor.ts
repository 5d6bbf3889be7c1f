/**
 * Tensors with torch's aliasing. A base holds a value of the graph; a view reads through its parent and writes back
 * through it, so an in-place write on any alias changes what all others read next. Where torch decides by strides
 * whether a result is a view (reshape, contiguous), a later write makes the other tensors unreadable: reading one is
 * refused, not guessed.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { DType } from '../../../../lib/contract/tensor.ts';
import type { Shape, Value } from '../../../graph/value.ts';
import type { Int } from './sizes.ts';

/** How a view reads its parent, and what its parent becomes when the view is written. */
export interface ViewStep {
  readonly read: (parent: Value) => Value;
  /** Missing: torch has no single place to write to (expand), or it is not modelled. */
  readonly write?: (parent: Value, value: Value) => Value;
  readonly name: string;
}

/** The graphs under construction: branches are numbered, the model itself is 0. */
export interface Scopes {
  readonly current: number;
  isOpen(scope: number): boolean;
}

/** How the numbers of a quantized tensor lie: its value holds whole numbers in float32, counted from the zero point. */
export interface Quantization {
  /** One, or of weights one for each place of the first axis. */
  readonly scales: readonly number[];
  readonly zeroPoint: number;
  /** Of what the value holds. */
  readonly low: number;
  readonly high: number;
}

export class TensorRef {
  readonly scopes: Scopes;
  readonly scope: number;
  /** The content of an integer of rank 0, such as a traced size. */
  known: Int | undefined;
  /** Whether all elements are 0, as an initial state is. */
  isZero = false;
  /** The step of an arange from 0, by which bags of equal length are known. */
  even: Int | undefined;
  quantized: Quantization | undefined;
  /** Why it must not be written: a parameter or buffer lives on after the call. */
  readonly fixed: string | undefined;
  #value: Value | undefined;
  #make: (() => Value) | undefined;
  readonly #parent: TensorRef | undefined;
  readonly #step: ViewStep | undefined;
  #seen = -1;
  #seenIn = 0;
  #version = 0;
  #taint: string | undefined;
  #twins: Set<TensorRef> | undefined;

  constructor(
    scopes: Scopes,
    source: Value | (() => Value) | { readonly parent: TensorRef; readonly step: ViewStep },
    fixed?: string,
  ) {
    this.scopes = scopes;
    this.scope = scopes.current;
    this.fixed = fixed;
    if (typeof source === 'function') this.#make = source;
    else if ('parent' in source) {
      this.#parent = source.parent;
      this.#step = source.step;
    } else this.#value = source;
  }

  /** @throws bad_model when a write may or may not have changed it */
  get value(): Value {
    const base = this.base;
    if (base.#taint !== undefined) throw badModel(base.#taint);
    if (!this.#parent) {
      this.#value ??= this.#make?.();
      return this.#value as Value;
    }
    if (!this.#value || this.#seen !== base.#version || !this.scopes.isOpen(this.#seenIn)) {
      this.#value = (this.#step as ViewStep).read(this.#parent.value);
      this.#seen = base.#version;
      this.#seenIn = this.scopes.current;
    }
    return this.#value;
  }

  get base(): TensorRef {
    return this.#parent ? this.#parent.base : this;
  }

  get dtype(): DType {
    return this.value.dtype;
  }

  get shape(): Shape {
    const { shape, name } = this.value;
    if (!shape) throw badModel(`"${name}" has no known rank`);
    return shape;
  }

  /** Declares that torch may have made this one a view of the other, or a copy. */
  mayAlias(other: TensorRef): this {
    const [mine, theirs] = [this.base, other.base];
    const all = new Set([...(mine.#twins ?? [mine]), ...(theirs.#twins ?? [theirs])]);
    for (const each of all) each.#twins = all;
    return this;
  }

  /** Writes in place: `value` has this tensor's dtype and shape. @throws bad_model where that is not modelled */
  assign(value: Value, op: string): void {
    const { base } = this;
    for (const { fixed } of [base, ...(base.#twins ?? [])]) if (fixed !== undefined) throw badModel(fixed);
    if (base.scope !== this.scopes.current)
      throw badModel('writes in place, in a branch that the data decide, to a tensor made outside of it');
    this.#write(value, op);
    base.#version += 1;
    for (const each of [base, this]) {
      each.known = undefined;
      each.even = undefined;
      each.isZero = false;
    }
    this.#value = value;
    this.#seen = base.#version;
    this.#seenIn = this.scopes.current;
    for (const twin of base.#twins ?? [])
      if (twin !== base)
        twin.#taint = `its memory may have been written by ${op}: torch decides by strides whether a reshape or contiguous is a copy; use clone() before the write`;
  }

  #write(value: Value, op: string): void {
    if (!this.#parent) {
      this.#value = value;
      return;
    }
    const { write, name } = this.#step as ViewStep;
    if (!write) throw badModel(`writes in place to a view made by ${name}, which is not modelled`);
    const parent = this.#parent.value;
    this.#parent.#write(write(parent, value), op);
  }
}
