/**
 * Quantized operators of PyTorch. A quantized tensor is held as whole numbers in float32, counted from its zero point, so sums are exact
 * below 2^24, ReLU, maxima and padding with zeros need nothing, and onnxruntime has no int8 kernel to choose. Rounding is the one of
 * FBGEMM: the sum plus the bias in steps of the sum, times one factor, to the nearest, halves to even.
 */
import { convolve } from '../../../emit/convolution.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { type Quantization, TensorRef } from '../run/tensor.ts';
import { itemsOf, Obj, type Py, refuse } from '../run/values.ts';
import { linear as multiply } from './linear.ts';
import type { Args, Rule, Table } from './schema.ts';

/** Torch's numbers of quantized dtypes, with their least and largest number. */
const RANGES: Readonly<Record<number, readonly [number, number]>> = { 12: [-128, 127], 13: [0, 255] };
const PACKED = 'packed';

/** Facts of a tensor, and what puts tensors into lists. */
const FACTS = new Set(
  'size dim ndim len shape numel __is__ __isnot__ append extend insert pop __getitem__ list copy reverse print warn unchecked_unwrap_optional _unwrap_optional'.split(
    ' ',
  ),
);
/** Operators that move numbers or take the largest, so that the result has the steps of its argument. */
const SAME = new Set(
  'view reshape flatten unflatten permute transpose swapaxes t contiguous clone detach alias select slice narrow unsqueeze squeeze chunk split split_with_sizes unbind expand flip roll channel_shuffle pixel_shuffle dropout feature_dropout relu max_pool1d max_pool2d adaptive_max_pool2d upsample_nearest2d cat concat stack'.split(
    ' ',
  ),
);
/** What computes means: the result has the steps of its argument, rounded. */
const MEANS = new Set(['adaptive_avg_pool2d', 'avg_pool2d', 'mean']);
const OWN = new Set(['dequantize', 'q_scale', 'q_zero_point', 'is_quantized', 'int_repr']);

/**
 * Calls an operator on quantized tensors by `call`, which knows nothing of them; undefined where none is among the arguments, or the
 * operator has a rule for them.
 */
export function callQuantized(c: Context, name: string, args: readonly Py[], call: () => Py): Py | undefined {
  const given = args
    .flatMap((arg) => itemsOf(arg) ?? [arg])
    .flatMap((arg) => (arg instanceof TensorRef && arg.quantized ? [arg.quantized] : []));
  const [first] = given;
  if (!first || name.startsWith('ops.quantized.') || OWN.has(name) || FACTS.has(name)) return undefined;
  const plain = name.replace(/_$/, '');
  const isSame = given.every(
    (each) => each.scales[0] === first.scales[0] && each.zeroPoint === first.zeroPoint,
  );
  if (!isSame || first.scales.length > 1 || !(SAME.has(plain) || MEANS.has(plain)))
    return refuse(
      'of a quantized tensor is not supported; save the model before it is quantized, which answers in float32',
    );
  const made = call();
  if (!MEANS.has(plain)) return marked(made, first);
  return made instanceof TensorRef
    ? marked(c.tensor(c.one('Round', [made.value])), first)
    : refuse('makes no tensor');
}

function marked(made: Py, quantized: Quantization): Py {
  for (const each of itemsOf(made) ?? [made]) if (each instanceof TensorRef) each.quantized = quantized;
  return made;
}

/** Numbers of float32, as torch computes them. */
const [f, over] = [Math.fround, (a: number, b: number) => Math.fround(Math.fround(a) / Math.fround(b))];

function targetOf(a: Args, low?: number): Quantization {
  const [least, largest] = RANGES[13] ?? [0, 0];
  const zeroPoint = a.n('zero_point');
  return {
    scales: [f(a.float('scale'))],
    zeroPoint,
    low: Math.max(low ?? -Infinity, least - zeroPoint),
    high: largest - zeroPoint,
  };
}

/** Rounds what is counted in steps already. */
function settle(c: Context, steps: Value, target: Quantization): Py {
  const bounds = [target.low, target.high].map((bound) => c.g.scalar('float32', bound));
  return marked(c.tensor(c.one('Clip', [c.one('Round', [steps]), ...bounds])), target);
}

function scaleOf(target: Quantization): number {
  return target.scales[0] ?? refuse('has no scale');
}

function times(c: Context, x: Value, factor: number): Value {
  return factor === 1 ? x : c.one('Mul', [x, c.g.scalar('float32', factor)]);
}

function quantizedOf(tensor: TensorRef): Quantization {
  return tensor.quantized ?? refuse('needs a quantized tensor');
}

/** The numbers that it stands for. */
function realOf(c: Context, tensor: TensorRef): Value {
  const { scales } = quantizedOf(tensor);
  return scales.length === 1 ? times(c, tensor.value, scales[0] ?? 1) : refuse('of weights is not supported');
}

const quantize: Rule = (c, a) => {
  const [least, largest] =
    RANGES[a.n('dtype')] ?? refuse(`to torch's dtype ${a.n('dtype')} is not supported`);
  const [scale, zeroPoint] = [f(a.float('scale')), a.n('zero_point')];
  const target = { scales: [scale], zeroPoint, low: least - zeroPoint, high: largest - zeroPoint };
  return settle(c, times(c, a.v('x'), over(1, scale)), target);
};

/** Weights with their bias, which archives keep as an object of C++. */
interface Packed {
  readonly weight: TensorRef;
  readonly bias: TensorRef | undefined;
  readonly windows: Readonly<Record<'stride' | 'padding' | 'dilation', readonly number[]>>;
  readonly group: number;
}

const pack =
  (read: (a: Args) => Pick<Packed, 'group' | 'windows'>): Rule =>
  (_, a) => {
    const packed: Packed = {
      weight: a.tensor('weight'),
      bias: a.isSet('bias') ? a.tensor('bias') : undefined,
      ...read(a),
    };
    const made = new Obj(PACKED);
    made.origin = packed;
    return made;
  };

const NO_WINDOWS = { stride: [], padding: [], dilation: [] };
const packLinear = pack(() => ({ group: 1, windows: NO_WINDOWS }));
const packConvolution = pack((a) => ({
  group: a.n('groups'),
  windows: { stride: a.ns('stride'), padding: a.ns('padding'), dilation: a.ns('dilation') },
}));

function isPacked(value: object | undefined): value is Packed {
  return value !== undefined && 'weight' in value && 'windows' in value;
}

function packedOf(a: Args): Packed {
  const made = a.raw('packed');
  if (made instanceof Obj && made.type === PACKED && isPacked(made.origin)) return made.origin;
  const state = made instanceof Obj ? itemsOf(made.attributes.get('state')) : undefined;
  const [weight, bias] = state ?? [];
  const isLinear = made instanceof Obj && made.type.endsWith('.LinearPackedParamsBase');
  if (!isLinear || !(weight instanceof TensorRef)) return refuse('has weights of a kind that is not known');
  return { weight, bias: bias instanceof TensorRef ? bias : undefined, group: 1, windows: NO_WINDOWS };
}

/** The sum of a product in steps of the result. `after` is the number of axes behind that of the outputs. */
function rescale(
  c: Context,
  sum: Value,
  x: TensorRef,
  { weight, bias }: Packed,
  target: Quantization,
  after: number,
): Py {
  const from = scaleOf(quantizedOf(x));
  const { scales } = quantizedOf(weight);
  const outputs = c.fixed(c.sizeOf(weight.value, 0), 'number of outputs');
  const perOutput = (compute: (scale: number, i: number) => number) =>
    c.g.floats(
      Array.from({ length: outputs }, (_, i) =>
        compute(scales[scales.length === 1 ? 0 : i] ?? Number.NaN, i),
      ),
      [outputs, ...new Array<number>(after).fill(1)],
    );
  const numbers = bias?.value.constant?.data;
  if (bias && !numbers) refuse('has a bias that is computed');
  const shift = numbers && perOutput((scale, i) => over(Number(numbers[i]), f(from * scale)));
  const shifted = shift ? c.one('Add', [sum, shift]) : sum;
  const factor = perOutput((scale) => over(f(from * scale), scaleOf(target)));
  return settle(c, c.one('Mul', [shifted, factor]), target);
}

const linear =
  (low?: number): Rule =>
  (c, a) => {
    const [x, packed] = [a.tensor('x'), packedOf(a)];
    return rescale(c, multiply(c, x.value, packed.weight.value, undefined), x, packed, targetOf(a, low), 0);
  };

const convolution =
  (spatial: number, low?: number): Rule =>
  (c, a) => {
    const [x, packed] = [a.tensor('x'), packedOf(a)];
    const { stride, padding, dilation } = packed.windows;
    if (packed.weight.shape.length !== spatial + 2 || stride.length !== spatial)
      refuse('has weights of another rank');
    const kernel = packed.weight.shape.slice(2).map(Number);
    const windows = { kernel, strides: stride, dilations: dilation, pads: [...padding, ...padding] };
    const sum = convolve(c, x.value, windows, { weights: packed.weight.value, group: packed.group });
    return rescale(c, sum, x, packed, targetOf(a, low), spatial);
  };

const binary =
  (op: 'Add' | 'Mul', low?: number): Rule =>
  (c, a) => {
    const target = targetOf(a, low);
    const made = c.one(op, [realOf(c, a.tensor('a')), realOf(c, a.tensor('b'))]);
    return settle(c, times(c, made, over(1, scaleOf(target))), target);
  };

const concat: Rule = (c, a) => {
  const parts = a.tensors('tensors');
  const target = a.isSet('scale') ? targetOf(a) : quantizedOf(parts[0] ?? refuse('has no tensors'));
  const same = (part: TensorRef) =>
    scaleOf(quantizedOf(part)) === scaleOf(target) && quantizedOf(part).zeroPoint === target.zeroPoint;
  const values = parts.map((part) => {
    if (same(part)) return part.value;
    const moved = settle(c, times(c, realOf(c, part), over(1, scaleOf(target))), target);
    return moved instanceof TensorRef ? moved.value : refuse('makes no tensor');
  });
  const axis = a.axis('dim', parts[0] ?? refuse('has no tensors'));
  return marked(c.tensor(c.one('Concat', values, { axis })), target);
};

const dynamic: Rule = () =>
  refuse(
    'takes the range of the whole batch, so records would depend on each other; save the model before quantize_dynamic, which answers in float32',
  );

const OUT = 'float scale, int zero_point';
const TO = 'Tensor x, any packed';
const PREPACK = 'Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups';

export const QUANTIZED: Table = {
  'quantize_per_tensor(Tensor x, float scale, int zero_point, int dtype)': quantize,
  'dequantize(Tensor x)': (c, a) => (a.tensor('x').quantized ? realOf(c, a.tensor('x')) : a.tensor('x')),
  'q_zero_point(Tensor x)': (_, a) => quantizedOf(a.tensor('x')).zeroPoint,
  'ops.quantized.linear_prepack(Tensor weight, Tensor? bias=None)': packLinear,
  [`ops.quantized.conv1d_prepack(${PREPACK}) | ops.quantized.conv2d_prepack(${PREPACK})`]: packConvolution,
  [`ops.quantized.linear(${TO}, ${OUT})`]: linear(),
  [`ops.quantized.linear_relu(${TO}, ${OUT})`]: linear(0),
  [`ops.quantized.conv1d(${TO}, ${OUT})`]: convolution(1),
  [`ops.quantized.conv1d_relu(${TO}, ${OUT})`]: convolution(1, 0),
  [`ops.quantized.conv2d(${TO}, ${OUT})`]: convolution(2),
  [`ops.quantized.conv2d_relu(${TO}, ${OUT})`]: convolution(2, 0),
  [`ops.quantized.add(Tensor a, Tensor b, ${OUT})`]: binary('Add'),
  [`ops.quantized.add_relu(Tensor a, Tensor b, ${OUT})`]: binary('Add', 0),
  [`ops.quantized.mul(Tensor a, Tensor b, ${OUT})`]: binary('Mul'),
  [`ops.quantized.mul_relu(Tensor a, Tensor b, ${OUT})`]: binary('Mul', 0),
  'ops.quantized.cat(Tensor[] tensors, int dim, float? scale=None, int? zero_point=None)': concat,
  'ops.quantized.linear_dynamic(Tensor x, any packed, bool reduce_range=False) | ops.quantized.linear_relu_dynamic(Tensor x, any packed, bool reduce_range=False)':
    dynamic,
};
