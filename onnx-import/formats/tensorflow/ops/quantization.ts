/**
 * Converts between quantized integers with a range and floats. MIN_FIRST moves the minimum to a multiple of the step,
 * so that 0 is exactly representable.
 */

import type { DType } from '../../../../lib/contract/tensor.ts';
import { compute } from '../../../emit/formula.ts';
import { unsqueeze } from '../../../emit/gather.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { constantNumber, constantNumbers } from '../../../graph/numbers.ts';
import { rank } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
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

/** Rounds half away from zero, as C's round does. */
const AWAY = 'Sign(x) * Floor(Abs(x) + 0.5)';
const EVEN = 'Round(x)';

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
  const on = new Arithmetic(g, context, node.name);
  const axis = intAttribute(node, 'axis', -1);
  const [min, max] = [along(g, low, x, axis), along(g, high, x, axis)];
  const [least, most] = limitsOf(x.dtype);
  const mode = textAttribute(node, 'mode', 'MIN_COMBINED');
  const text = Object.hasOwn(DEQUANTIZE, mode) ? DEQUANTIZE[mode] : undefined;
  if (text === undefined) return refuse(`needs mode MIN_COMBINED, MIN_FIRST or SCALED, got ${mode}`);
  return compute(on, mode === 'SCALED' && least === 0 ? 'bytes * (max / most)' : text, {
    bytes: on.cast(x, 'float32'),
    min,
    max,
    least,
    most,
    span: most - least,
    half: least < 0 ? (most - least + 1) / 2 : 0,
    lowest: least + (flagAttribute(node, 'narrow_range', false) ? 1 : 0),
  });
};

const DEQUANTIZE: Readonly<Record<string, string>> = {
  MIN_COMBINED: '(bytes + half) * ((max - min) / span) + min',
  MIN_FIRST: `step = (max - min) / span; x = min / step; (bytes - least) * step + ${AWAY} * step`,
  SCALED: 'bytes * Max(min / lowest, max / most)',
};

/** The stored type of an attribute, in which quint8 appears as an unsupported name. */
function storedType(node: TfNode, name: string): DType {
  const attribute = node.attributes[name];
  const type = attribute?.kind === 'type' ? attribute.value : 'uint8';
  const plain = typeof type === 'string' ? type : type.unsupported.replace(/^q/, '');
  return plain in LIMITS ? (plain as DType) : refuse(`to ${plain} is not supported`);
}

const quantize: Rule = (node, [x, lowest, highest], g, context) => {
  const on = new Arithmetic(g, context, node.name);
  if (intAttribute(node, 'axis', -1) >= 0) refuse('per channel is not supported');
  const dtype = storedType(node, 'T');
  const [least, most] = limitsOf(dtype);
  const [low, high] = [along(g, lowest, x, -1), along(g, highest, x, -1)];
  // The range that TensorFlow uses: widened to contain 0 and to be large enough.
  const share = floatAttribute(node, 'ensure_minimum_range', 0.01);
  const min = compute(on, 'Min(low, 0)', { low });
  const widest = 'Max(Max(high, min + Max(Max(Abs(low), Abs(high)), 1) * share), 0)';
  const max = compute(on, widest, { low, high, min, share });
  const mode = textAttribute(node, 'mode', 'MIN_COMBINED');
  const isEven = textAttribute(node, 'round_mode', 'HALF_AWAY_FROM_ZERO') === 'HALF_TO_EVEN';
  const round = (value: Value) => compute(on, isEven ? EVEN : AWAY, { x: value });
  if (mode === 'SCALED') {
    const first = least + (flagAttribute(node, 'narrow_range', false) ? 1 : 0);
    const text = least === 0 ? 'most / max' : 'Min(most / max, first / Min(min, -1e-30))';
    const scale = compute(on, text, { max, min, most, first });
    const [from, to] = [first, most].map((end) => compute(on, 'end / scale', { scale, end })) as [
      Value,
      Value,
    ];
    const steps = compute(on, 'Min(Max(x, from), to) * scale', { x, from, to, scale });
    return [on.cast(round(steps), dtype), from, to];
  }
  const scale = compute(on, 'span / (max - min)', { max, min, span: most - least });
  const inside = compute(on, 'Min(Max(x, min), max)', { x, min, max });
  if (mode === 'MIN_COMBINED') {
    const half = least < 0 ? (most - least + 1) / 2 : 0;
    const bytes = round(compute(on, '(inside - min) * scale - half', { inside, min, scale, half }));
    return [on.cast(bytes, dtype), min, max];
  }
  if (mode !== 'MIN_FIRST') return refuse(`needs mode MIN_COMBINED, MIN_FIRST or SCALED, got ${mode}`);
  const [steps, zero] = [inside, min].map((value) =>
    compute(on, `x = value * scale; ${AWAY}`, { value, scale }),
  ) as [Value, Value];
  const bytes = compute(on, 'Min(Max(steps - zero + least, least), most)', { steps, zero, least, most });
  return [on.cast(bytes, dtype), min, max];
};

/** Rounds to the steps of `num_bits` bits, in a range that is shifted until 0 is a step. */
function fake(on: Arithmetic, node: TfNode, x: Value, range: { low: Value; high: Value }): Value {
  const least = flagAttribute(node, 'narrow_range', false) ? 1 : 0;
  const most = 2 ** intAttribute(node, 'num_bits', 8) - 1;
  const step = compute(on, '(high - low) / span', { ...range, span: most - least });
  const zero = `x = Min(Max(least - low / step, least), most); ${AWAY}`;
  const point = compute(on, zero, { low: range.low, step, least, most });
  const [min, max] = [least, most].map((end) =>
    compute(on, '(end - point) * step', { point, step, end }),
  ) as [Value, Value];
  const steps = 'Floor((Min(Max(x, min), max) - min) / step + 0.5) * step + min';
  return compute(on, steps, { x, min, max, step });
}

/** A range from 0 to 0 gives 0. */
function fakeRule(
  rangeOf: (node: TfNode, inputs: readonly Value[], g: GraphBuilder) => { low: Value; high: Value },
): Rule {
  return (node, inputs, g, context: Context) => {
    const [x] = inputs;
    const on = new Arithmetic(g, context, node.name);
    const { low, high } = rangeOf(node, inputs, g);
    const made = fake(on, node, x, { low, high });
    if (low.constant && high.constant && constantNumbers(low, 'min').every((value) => value < 0)) return made;
    return compute(on, 'Where(high - low == 0, 0, made)', { high, low, made });
  };
}

const quantizeAndDequantize: Rule = (node, inputs, g, context) => {
  const [x, low, high] = inputs;
  const on = new Arithmetic(g, context, node.name);
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
  const steps = 'Min(Max(x, from), to) * scale';
  const isEven = textAttribute(node, 'round_mode', 'HALF_TO_EVEN') === 'HALF_TO_EVEN';
  const text = isEven ? `Round(${steps}) / scale` : `Floor(${steps} + 0.5) / scale`;
  return compute(on, text, { x, from: least / scale, to: most / scale, scale });
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
