/**
 * Writes operations on elements for a rule that needs several of them. An operation is done on the layout pairs of its
 * inputs where there are some.
 */
import type { DType } from '../../../lib/contract/tensor.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import type { Attributes, Value } from '../../graph/value.ts';
import type { TfNode } from '../graph.ts';
import { cast } from './kernels.ts';
import type { Context, Operands, Rule } from './rule.ts';

/** The operations of one rule. */
export class Arithmetic {
  readonly builder: GraphBuilder;
  readonly #context: Context;
  readonly #hint: string;

  constructor(g: GraphBuilder, context: Context, hint: string) {
    this.builder = g;
    this.#context = context;
    this.#hint = hint;
  }

  do(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    return this.#context.layouts.elementwise(this.builder, op, inputs, attributes, this.#hint);
  }

  /** A number of the dtype of `like`. */
  number(like: Value, value: number): Value {
    return this.builder.scalar(like.dtype, value);
  }

  /** Cast is no operation of one dtype, so it goes through the pairs by hand. */
  cast(value: Value, dtype: DType): Value {
    const { layouts } = this.#context;
    const pair = layouts.pair(value);
    return pair && value.dtype !== dtype
      ? layouts.last(this.builder, cast(this.builder, pair, dtype), this.#hint)
      : cast(this.builder, value, dtype);
  }
}

export type Compute = (on: Arithmetic, inputs: Operands, node: TfNode) => Value;

/** A rule made of several operations. */
export function formula(compute: Compute): Rule {
  return (node, inputs, g, context) => compute(new Arithmetic(g, context, node.name), inputs, node);
}

export function isFloat(value: Value): boolean {
  return value.dtype.startsWith('float');
}

/** Both inputs in one dtype. */
export function agree(on: Arithmetic, [x, y]: Operands): [Value, Value] {
  if (x.dtype === y.dtype) return [x, y];
  // half and float32 meet in files that were made smaller; both are float32 here, and float64 would have won.
  return x.dtype === 'float64' || y.dtype === 'float64'
    ? [on.cast(x, 'float64'), on.cast(y, 'float64')]
    : [x, on.cast(y, x.dtype)];
}

export function where(on: Arithmetic, condition: Value, x: Value, y: Value): Value {
  return on.do('Where', [condition, x, y]);
}
