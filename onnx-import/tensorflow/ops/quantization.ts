/**
 * Converts between quantized integers with a range and floats. MIN_FIRST moves the minimum to a multiple of the step,
 * so that 0 is exactly representable.
 */

import type { DType } from '../../../lib/contract/tensor.ts';
import { unsqueeze } from '../../emit/gather.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../graph/numbers.ts';
import { rank } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import { flagAttribute, floatAttribute, intAttribute, type TfNode, textAttribute } from '../graph.ts';
import { Arithmetic } from './arithmetic.ts';
import { cast } from './kernels.ts';
import { refuse } from './refuse.ts';
import { type Context, type OpTable, type Rule, takes } from './rule.ts';

/** The ranges of the stored types: quint8 is stored as uint8, qint8 as int8, and so on. */
const LIMITS: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  uint8: [0, 255],
  int8: [-128, 127],
  uint16: [0, 65535],
  int16: [-32768, 32767],
  int32: [-2147483648, 2147483647],
};

function limitsOf(dtype: DType): readonly [number, number] {
  return LIMITS[dtype] ?? refuse(`is not supported for ${dtype}`);
}

/** Float arithmetic that also accepts numbers. */
class Floats extends Arithmetic {
  value(x: Value | number): Value {
    return typeof x === 'number' ? this.builder.scalar('float32', x) : x;
  }

  of(op: string, ...inputs: readonly (Value | number)[]): Value {
    return this.do(
      op,
      inputs.map((input) => this.value(input)),
    );
  }

  /** Rounds half away from zero, as C's round does. */
  round(x: Value): Value {
    return this.of('Mul', this.of('Sign', x), this.of('Floor', this.of('Add', this.of('Abs', x), 0.5)));
  }
}

/** Reshapes a range per channel so that it broadcasts along its axis. */
function along(g: GraphBuilder, range: Value, x: Value, axis: number): Value {
  const value = cast(g, range, 'float32');
  if (axis < 0) return value.shape?.length === 1 ? g.one('Reshape', [value, g.ints([])]) : value;
  return unsqueeze(
    g,
    value,
    Array.from({ length: rank(x) - axis - 1 }, (_, i) => i + 1),
  );
}

const dequantize: Rule = (node, [x, low, high], g, context) => {
  const on = new Floats(g, context, node.name);
  const axis = intAttribute(node, 'axis', -1);
  const [min, max] = [along(g, low, x, axis), along(g, high, x, axis)];
  const [least, most] = limitsOf(x.dtype);
  const bytes = on.cast(x, 'float32');
  const mode = textAttribute(node, 'mode', 'MIN_COMBINED');
  const step = on.of('Div', on.of('Sub', max, min), most - least);
  if (mode === 'MIN_COMBINED') {
    const half = least < 0 ? (most - least + 1) / 2 : 0;
    return on.of('Add', on.of('Mul', on.of('Add', bytes, half), step), min);
  }
  if (mode === 'MIN_FIRST') {
    const rounded = on.of('Mul', on.round(on.of('Div', min, step)), step);
    return on.of('Add', on.of('Mul', on.of('Sub', bytes, least), step), rounded);
  }
  if (mode !== 'SCALED') return refuse(`needs mode MIN_COMBINED, MIN_FIRST or SCALED, got ${mode}`);
  const lowest = least + (flagAttribute(node, 'narrow_range', false) ? 1 : 0);
  const up = on.of('Div', max, most);
  return on.of('Mul', bytes, least === 0 ? up : on.of('Max', on.of('Div', min, lowest), up));
};

/** The stored type of an attribute, in which quint8 appears as an unsupported name. */
function storedType(node: TfNode, name: string): DType {
  const attribute = node.attributes[name];
  const type = attribute?.kind === 'type' ? attribute.value : 'uint8';
  const plain = typeof type === 'string' ? type : type.unsupported.replace(/^q/, '');
  return plain in LIMITS ? (plain as DType) : refuse(`to ${plain} is not supported`);
}

/** The range that TensorFlow uses: widened to contain 0 and to be large enough. */
function usedRange(on: Floats, node: TfNode, low: Value, high: Value): [Value, Value] {
  const min = on.of('Min', low, 0);
  const least = floatAttribute(node, 'ensure_minimum_range', 0.01);
  const size = on.of('Max', on.of('Max', on.of('Abs', low), on.of('Abs', high)), 1);
  const max = on.of('Max', on.of('Max', high, on.of('Add', min, on.of('Mul', size, least))), 0);
  return [min, max];
}

const quantize: Rule = (node, [x, low, high], g, context) => {
  const on = new Floats(g, context, node.name);
  if (intAttribute(node, 'axis', -1) >= 0) refuse('per channel is not supported');
  const dtype = storedType(node, 'T');
  const [least, most] = limitsOf(dtype);
  const [min, max] = usedRange(on, node, along(g, low, x, -1), along(g, high, x, -1));
  const mode = textAttribute(node, 'mode', 'MIN_COMBINED');
  const even = textAttribute(node, 'round_mode', 'HALF_AWAY_FROM_ZERO') === 'HALF_TO_EVEN';
  const round = (value: Value) => (even ? on.of('Round', value) : on.round(value));
  if (mode === 'SCALED') {
    const lowest = least + (flagAttribute(node, 'narrow_range', false) ? 1 : 0);
    const up = on.of('Div', most, max);
    const scale = least === 0 ? up : on.of('Min', up, on.of('Div', lowest, on.of('Min', min, -1e-30)));
    const [from, to] = [on.of('Div', lowest, scale), on.of('Div', most, scale)];
    const inside = on.of('Min', on.of('Max', x, from), to);
    return [on.cast(round(on.of('Mul', inside, scale)), dtype), from, to];
  }
  const scale = on.of('Div', most - least, on.of('Sub', max, min));
  const inside = on.of('Min', on.of('Max', x, min), max);
  if (mode === 'MIN_COMBINED') {
    const half = least < 0 ? (most - least + 1) / 2 : 0;
    const bytes = round(on.of('Sub', on.of('Mul', on.of('Sub', inside, min), scale), half));
    return [on.cast(bytes, dtype), min, max];
  }
  if (mode !== 'MIN_FIRST') return refuse(`needs mode MIN_COMBINED, MIN_FIRST or SCALED, got ${mode}`);
  const moved = on.of('Sub', on.round(on.of('Mul', inside, scale)), on.round(on.of('Mul', min, scale)));
  const bytes = on.of('Min', on.of('Max', on.of('Add', moved, least), least), most);
  return [on.cast(bytes, dtype), min, max];
};

/** Rounds to the steps of `num_bits` bits, in a range that is shifted until 0 is a step. */
function fake(on: Floats, node: TfNode, x: Value, range: { low: Value; high: Value }): Value {
  const least = flagAttribute(node, 'narrow_range', false) ? 1 : 0;
  const most = 2 ** intAttribute(node, 'num_bits', 8) - 1;
  const { low, high } = range;
  const step = on.of('Div', on.of('Sub', high, low), most - least);
  const zero = on.of('Sub', least, on.of('Div', low, step));
  const point = on.round(on.of('Min', on.of('Max', zero, least), most));
  const min = on.of('Mul', on.of('Sub', least, point), step);
  const max = on.of('Mul', on.of('Sub', most, point), step);
  const inside = on.of('Sub', on.of('Min', on.of('Max', x, min), max), min);
  const steps = on.of('Floor', on.of('Add', on.of('Div', inside, step), 0.5));
  return on.of('Add', on.of('Mul', steps, step), min);
}

/** A range from 0 to 0 gives 0. */
function fakeRule(
  rangeOf: (node: TfNode, inputs: readonly Value[], g: GraphBuilder) => { low: Value; high: Value },
): Rule {
  return (node, inputs, g, context: Context) => {
    const [x] = inputs;
    const on = new Floats(g, context, node.name);
    const { low, high } = rangeOf(node, inputs, g);
    const made = fake(on, node, x, { low, high });
    if (low.constant && high.constant && constantNumbers(low, 'min').every((value) => value < 0)) return made;
    const none = on.of('Equal', on.of('Sub', high, low), 0);
    return on.of('Where', none, 0, made);
  };
}

const quantizeAndDequantize: Rule = (node, inputs, g, context) => {
  const [x, low, high] = inputs;
  const on = new Floats(g, context, node.name);
  if (intAttribute(node, 'axis', -1) >= 0) refuse('per channel is not supported');
  if (!flagAttribute(node, 'range_given', false)) refuse('needs a given range');
  const bits = inputs[3] ? constantNumber(inputs[3], 'number of bits') : intAttribute(node, 'num_bits', 8);
  const signed = flagAttribute(node, 'signed_input', true);
  const narrow = flagAttribute(node, 'narrow_range', false) ? 1 : 0;
  const least = signed ? -(2 ** (bits - 1)) + narrow : 0;
  const most = signed ? 2 ** (bits - 1) - 1 : 2 ** bits - 1;
  const [min] = constantNumbers(low, 'minimum') as [number];
  const [max] = constantNumbers(high, 'maximum') as [number];
  const scales = [least * min > 0 ? least / min : Infinity, most * max > 0 ? most / max : Infinity];
  const scale = Math.min(...scales);
  if (!Number.isFinite(scale)) return refuse(`needs a range with 0 inside, got ${min} to ${max}`);
  const inside = on.of('Min', on.of('Max', x, least / scale), most / scale);
  const even = textAttribute(node, 'round_mode', 'HALF_TO_EVEN') === 'HALF_TO_EVEN';
  const steps = on.of('Mul', inside, scale);
  const rounded = even ? on.of('Round', steps) : on.of('Floor', on.of('Add', steps, 0.5));
  return on.of('Div', rounded, scale);
};

const byVars = (node: TfNode, [, low, high]: readonly Value[], g: GraphBuilder) =>
  low && high
    ? { low: along(g, low, low, -1), high: along(g, high, high, -1) }
    : refuse(`has no range (node "${node.name}")`);

export const QUANTIZATION: OpTable = {
  ...takes(1, {
    FakeQuantWithMinMaxArgs: fakeRule((node, _inputs, g) => ({
      low: g.scalar('float32', floatAttribute(node, 'min', -6)),
      high: g.scalar('float32', floatAttribute(node, 'max', 6)),
    })),
  }),
  ...takes(3, {
    Dequantize: dequantize,
    FakeQuantWithMinMaxVars: fakeRule(byVars),
    // One range per channel, which is the last axis.
    FakeQuantWithMinMaxVarsPerChannel: fakeRule((_node, inputs) => ({
      low: inputs[1] as Value,
      high: inputs[2] as Value,
    })),
    QuantizeAndDequantizeV2: quantizeAndDequantize,
    QuantizeAndDequantizeV3: quantizeAndDequantize,
    QuantizeAndDequantizeV4: quantizeAndDequantize,
    QuantizeV2: quantize,
  }),
};
