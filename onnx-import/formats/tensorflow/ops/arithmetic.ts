/**
 * Adds elementwise operations for a rule that needs several of them. Each runs on the channels-first pairs of its
 * inputs if there are any (see layout.ts).
 */
import type { DType } from '../../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import type { Attributes, Value } from '../../../graph/value.ts';
import type { TfNode } from '../graph.ts';
import { cast } from './kernels.ts';
import type { Context, Operands, Rule } from './rule.ts';

/** The elementwise operations of one rule. */
export class Arithmetic {
  readonly g: GraphBuilder;
  readonly #context: Context;
  readonly #hint: string;

  constructor(g: GraphBuilder, context: Context, hint: string) {
    this.g = g;
    this.#context = context;
    this.#hint = hint;
  }

  one(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    return this.#context.layouts.elementwise(this.g, op, inputs, attributes, this.#hint);
  }

  /** A scalar constant of the dtype of `like`. */
  number(like: Value, value: number): Value {
    return this.g.scalar(like.dtype, value);
  }

  /** Cast changes the dtype, so it handles the pairs itself. */
  cast(value: Value, dtype: DType): Value {
    const { layouts } = this.#context;
    const pair = layouts.pair(value);
    return pair && value.dtype !== dtype
      ? layouts.last(this.g, cast(this.g, pair, dtype), this.#hint)
      : cast(this.g, value, dtype);
  }
}

export type Compute = (on: Arithmetic, inputs: Operands, node: TfNode) => Value;

/** A rule that is a formula of several operations. */
export function formula(compute: Compute): Rule {
  return (node, inputs, g, context) => compute(new Arithmetic(g, context, node.name), inputs, node);
}

export function isFloat(value: Value): boolean {
  return value.dtype.startsWith('float');
}

/** Casts both inputs to one dtype. */
export function agree(on: Arithmetic, [x, y]: Operands): [Value, Value] {
  if (x.dtype === y.dtype) return [x, y];
  // Compressed models mix half and float32. Both are float32 here, but float64 stays float64.
  return x.dtype === 'float64' || y.dtype === 'float64'
    ? [on.cast(x, 'float64'), on.cast(y, 'float64')]
    : [x, on.cast(y, x.dtype)];
}
