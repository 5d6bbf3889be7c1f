/** Functions of torch.nn.functional whose arguments differ from those of the operators they call. */
import { type Args, operators, type Rule, type Table } from '../aten/schema.ts';
import { callOperator } from '../aten/table.ts';
import type { Context } from '../run/context.ts';
import { Float, itemsOf, type Py, refuse, Tuple } from '../run/values.ts';

const NONE: ReadonlyMap<string, Py> = new Map();

export function operate(c: Context, name: string, ...args: Py[]): Py {
  return callOperator(c, name, args, NONE);
}

/** An activation with further numbers, in place if asked for. */
const activation =
  (name: string, ...numbers: string[]): Rule =>
  (c, a) =>
    operate(c, a.bool('inplace') ? `${name}_` : name, a.raw('x'), ...numbers.map((each) => a.raw(each)));

const passed =
  (name: string, ...args: string[]): Rule =>
  (c, a) =>
    operate(c, name, ...args.map((each) => a.raw(each)));

const pool =
  (name: string): Rule =>
  (c, a) => {
    if (a.bool('return_indices')) return refuse('return_indices is not supported');
    return operate(
      c,
      name,
      a.raw('x'),
      a.raw('kernel_size'),
      strideOf(c, a),
      ...['padding', 'dilation', 'ceil_mode'].map((each) => a.raw(each)),
    );
  };

function strideOf(c: Context, a: Args): Py {
  return a.raw('stride') ?? c.list([]);
}

const avgPool =
  (name: string): Rule =>
  (c, a) =>
    operate(
      c,
      name,
      a.raw('x'),
      a.raw('kernel_size'),
      strideOf(c, a),
      ...['padding', 'ceil_mode', 'count_include_pad'].map((each) => a.raw(each)),
    );

const adaptive =
  (n: number, name: string): Rule =>
  (c, a) => {
    const x = a.tensor('x');
    const sizes = itemsOf(a.raw('size')) ?? new Array<Py>(n).fill(a.raw('size'));
    const own = c.shapeOf(x.value).slice(-n);
    const made = operate(c, name, x, c.list(sizes.map((size, i) => size ?? (own[i] as Py))));
    return made instanceof Tuple ? (made.items[0] as Py) : made;
  };

const dropout =
  (name: string): Rule =>
  (c, a) =>
    operate(c, name, a.raw('x'), a.raw('p'), a.raw('training'));

const withDim =
  (name: string): Rule =>
  (c, a) => {
    const x = a.tensor('x');
    const rank = x.shape.length;
    // Without dim, torch warns and takes 0 for ranks 0, 1 and 3, else 1.
    const dim = a.raw('dim') ?? (rank === 0 || rank === 1 || rank === 3 ? 0 : 1);
    return operate(c, name, x, dim, a.raw('dtype'));
  };

const MODES: Readonly<Record<string, readonly string[]>> = {
  nearest: ['upsample_nearest1d', 'upsample_nearest2d', 'upsample_nearest3d'],
  'nearest-exact': ['_upsample_nearest_exact1d', '_upsample_nearest_exact2d', '_upsample_nearest_exact3d'],
  linear: ['upsample_linear1d'],
  bilinear: ['', 'upsample_bilinear2d'],
  bicubic: ['', 'upsample_bicubic2d'],
  trilinear: ['', '', 'upsample_trilinear3d'],
};

const interpolate: Rule = (c, a) => {
  const x = a.tensor('x');
  const spatial = x.shape.length - 2;
  const mode = a.text('mode');
  if (a.bool('antialias')) return refuse('antialias is not supported');
  if (mode === 'area') return operate(c, `adaptive_avg_pool${spatial}d`, x, full(c, a.raw('size'), spatial));
  const name = MODES[mode]?.[spatial - 1] || refuse(`mode ${mode} of ${spatial} axes is not supported`);
  const corners = mode.startsWith('nearest') ? [] : [a.bool('align_corners')];
  if (a.isSet('size')) return operate(c, name, x, full(c, a.raw('size'), spatial), ...corners, null);
  const factors = full(c, a.raw('scale_factor'), spatial).items.map((item) =>
    typeof item === 'number' ? new Float(item) : item,
  );
  if (!a.bool('recompute_scale_factor')) return operate(c, name, x, null, ...corners, c.list(factors));
  const sizes = c.shapeOf(x.value).slice(2);
  const to = factors.map((factor, i) =>
    Math.floor(c.fixed(sizes[i] as number, 'size') * (factor as Float).value),
  );
  return operate(c, name, x, c.list(to), ...corners, null);
};

function full(c: Context, value: Py, count: number) {
  return c.list(itemsOf(value) ?? new Array<Py>(count).fill(value));
}

const F = 'Tensor x';
const each = (make: (n: number) => Table): Table => Object.assign({}, ...[1, 2, 3].map(make)) as Table;

const FUNCTIONAL: Table = {
  ...Object.fromEntries(
    'relu relu6 silu mish hardswish hardsigmoid selu'
      .split(' ')
      .map((name) => [`${name}(${F}, bool inplace=False)`, activation(name)] as const),
  ),
  [`leaky_relu(${F}, Scalar negative_slope=0.01, bool inplace=False)`]: activation(
    'leaky_relu',
    'negative_slope',
  ),
  [`elu(${F}, Scalar alpha=1.0, bool inplace=False)`]: activation('elu', 'alpha'),
  [`celu(${F}, Scalar alpha=1.0, bool inplace=False)`]: activation('celu', 'alpha'),
  [`hardtanh(${F}, Scalar min_val=-1.0, Scalar max_val=1.0, bool inplace=False)`]: activation(
    'hardtanh',
    'min_val',
    'max_val',
  ),
  [`threshold(${F}, Scalar threshold, Scalar value, bool inplace=False)`]: activation(
    'threshold',
    'threshold',
    'value',
  ),
  [`logsigmoid(${F})`]: passed('log_sigmoid', 'x'),
  [`softsign(${F})`]: passed('softsign', 'x'),
  [`tanh(${F})`]: passed('tanh', 'x'),
  [`sigmoid(${F})`]: passed('sigmoid', 'x'),
  [`softmax(${F}, int? dim=None, int _stacklevel=3, int? dtype=None)`]: withDim('softmax'),
  [`log_softmax(${F}, int? dim=None, int _stacklevel=3, int? dtype=None)`]: withDim('log_softmax'),
  [`dropout(${F}, float p=0.5, bool training=True, bool inplace=False) | dropout1d(${F}, float p=0.5, bool training=True, bool inplace=False) | dropout2d(${F}, float p=0.5, bool training=True, bool inplace=False) | dropout3d(${F}, float p=0.5, bool training=True, bool inplace=False) | alpha_dropout(${F}, float p=0.5, bool training=True, bool inplace=False)`]:
    dropout('dropout'),
  'embedding(Tensor x, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False)':
    (c, a) => {
      if (a.isSet('max_norm')) return refuse('max_norm changes the weights and is not supported');
      return operate(c, 'embedding', a.raw('weight'), a.raw('x'));
    },
  [`batch_norm(${F}, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=0.00001)`]:
    passed('batch_norm', 'x', 'weight', 'bias', 'running_mean', 'running_var', 'training', 'momentum', 'eps'),
  [`instance_norm(${F}, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=0.00001)`]:
    passed(
      'instance_norm',
      'x',
      'weight',
      'bias',
      'running_mean',
      'running_var',
      'use_input_stats',
      'momentum',
      'eps',
    ),
  [`normalize(${F}, float p=2.0, int[] dim=1, float eps=1e-12)`]: passed('normalize', 'x', 'p', 'dim', 'eps'),
  [`interpolate(${F}, int[]? size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) | upsample(${F}, int[]? size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None)`]:
    interpolate,
  ...each((n) => ({
    [`max_pool${n}d(${F}, int[] kernel_size, int[]? stride=None, int[] padding=0, int[] dilation=1, bool ceil_mode=False, bool return_indices=False)`]:
      pool(`max_pool${n}d`),
    [`avg_pool${n}d(${F}, int[] kernel_size, int[]? stride=None, int[] padding=0, bool ceil_mode=False, bool count_include_pad=True)`]:
      avgPool(`avg_pool${n}d`),
    [`adaptive_avg_pool${n}d(${F}, any size)`]: adaptive(n, `adaptive_avg_pool${n}d`),
    [`adaptive_max_pool${n}d(${F}, any size)`]: adaptive(n, `adaptive_max_pool${n}d`),
  })),
};

/** By name; what is missing here is called as the operator itself. */
export const FUNCTIONS = operators(FUNCTIONAL);
