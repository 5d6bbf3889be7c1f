/** Normalization and dropout, in evaluation mode only: training mode depends on the other records or on chance. */
import { acrossChannels, batchNormalize, byRootMeanSquare, standardized } from '../../../emit/normalize.ts';
import type { Value } from '../../../graph/value.ts';
import type { Context } from '../run/context.ts';
import { type Int, product } from '../run/sizes.ts';
import { refuse, Tuple, Unset } from '../run/values.ts';
import { isValue, type Rule, type Table } from './schema.ts';
import { reshape } from './shaping.ts';

const EVAL = 'is in training mode; call model.eval() before saving the model';

/** A value per channel, shaped to fit axis 1. */
function perChannel(c: Context, value: Value, rank: number): Value {
  return reshape(c, value, [c.sizeOf(value, 0), ...new Array<number>(Math.max(0, rank - 2)).fill(1)]);
}

const batchNorm: Rule = (c, a) => {
  const x = a.v('x');
  const [mean, variance] = [a.opt('running_mean'), a.opt('running_var')];
  if (a.bool('training'))
    return refuse(
      mean ? EVAL : 'normalizes with the mean of the batch, so records would depend on each other',
    );
  if (!mean || !variance) return refuse('has no running mean');
  c.match(c.fixed(c.sizeOf(x, 1), 'number of channels'), c.sizeOf(mean, 0), 'channels');
  const [scale, shift, eps] = [a.opt('weight'), a.opt('bias'), a.float('eps')];
  // onnxruntime wants at least one spatial axis only for its fusions; rank 2 runs as it is.
  return batchNormalize(c, x, { mean, variance, scale, shift, eps });
};

export function layerNorm(
  c: Context,
  x: Value,
  shape: readonly number[],
  weight: Value | undefined,
  bias: Value | undefined,
  eps: number,
): Value {
  for (const [i, size] of shape.entries())
    c.match(c.sizeOf(x, i - shape.length), size, 'the sizes of a layer norm');
  const scale = weight ?? c.g.floats(new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(1), shape);
  return c.one('LayerNormalization', [x, scale, bias], { axis: -shape.length, epsilon: { float: eps } });
}

/** Normalizes all axes but the first two, without weights. */
function ownStatistics(c: Context, x: Value, eps: number): Value {
  const axes = (x.shape ?? []).map((_, i) => i).slice(2);
  return standardized(c, x, axes, eps);
}

function affine(c: Context, x: Value, weight: Value | undefined, bias: Value | undefined): Value {
  const rank = x.shape?.length ?? refuse('needs a known rank');
  const scaled = weight ? c.one('Mul', [x, perChannel(c, weight, rank)]) : x;
  return bias ? c.one('Add', [scaled, perChannel(c, bias, rank)]) : scaled;
}

const groupNorm: Rule = (c, a) => {
  const x = a.v('x');
  const [n, channels, ...rest] = c.shapeOf(x) as [Int, Int, ...Int[]];
  const groups = a.n('num_groups');
  const inner = c.sizes.divide(product([channels, ...rest]), groups);
  const grouped = reshape(c, x, [n, groups, inner]);
  return affine(
    c,
    reshape(c, ownStatistics(c, grouped, a.float('eps')), [n, channels, ...rest]),
    a.opt('weight'),
    a.opt('bias'),
  );
};

const instanceNorm: Rule = (c, a) => {
  const x = a.v('x');
  const rank = x.shape?.length ?? refuse('needs a known rank');
  if (!a.bool('use_input_stats')) {
    const [mean, variance] = [a.opt('running_mean'), a.opt('running_var')];
    if (!mean || !variance) return refuse('has no running mean');
    const root = c.one('Sqrt', [c.one('Add', [variance, c.g.scalar(x.dtype, a.float('eps'))])]);
    const made = c.one('Div', [c.one('Sub', [x, perChannel(c, mean, rank)]), perChannel(c, root, rank)]);
    return affine(c, made, a.opt('weight'), a.opt('bias'));
  }
  if (a.isSet('running_mean')) refuse(EVAL);
  if (rank < 3) refuse(`needs at least 3 dimensions, got ${rank}`);
  return affine(c, ownStatistics(c, x, a.float('eps')), a.opt('weight'), a.opt('bias'));
};

const rmsNorm: Rule = (c, a) => {
  const x = a.v('x');
  const count = a.ints('shape').length;
  const axes = (x.shape ?? []).map((_, i) => i).slice(-count);
  const eps = a.isSet('eps') ? a.float('eps') : 1.1920928955078125e-7;
  const made = byRootMeanSquare(c, x, axes, eps);
  return a.isSet('weight') ? c.one('Mul', [made, a.v('weight')]) : made;
};

const localResponse: Rule = (c, a) => {
  const x = a.v('x');
  if (x.shape?.length !== 4) refuse('needs 4 dimensions');
  const [size, alpha, beta, bias] = [a.n('size'), a.float('alpha'), a.float('beta'), a.float('k')];
  return acrossChannels(c, x, { size, alpha, beta, bias });
};

/** Eager torch returns its input, the compiler of TorchScript takes the result for a copy. */
const dropout: Rule = (c, a) => {
  if (a.bool('train') && a.float('p') !== 0) refuse(`drops values at random, because it ${EVAL}`);
  const x = a.tensor('x');
  return c.tensor(x.value).mayAlias(x);
};

/** The core operators return statistics, too, which only training needs. */
const withoutStatistics =
  (rule: Rule): Rule =>
  (c, a) => {
    const made = rule(c, a);
    return new Tuple([isValue(made) ? c.tensor(made) : made, new Unset(), new Unset()]);
  };

const normalizeLayer: Rule = (c, a) =>
  layerNorm(c, a.v('x'), a.ns('shape'), a.opt('weight'), a.opt('bias'), a.float('eps'));

const NORM = 'Tensor? weight=None, Tensor? bias=None, Tensor? running_mean=None, Tensor? running_var=None';

export const NORMALIZATION: Table = {
  [`batch_norm(Tensor x, ${NORM}, bool training=False, float momentum=0.1, float eps=0.00001, bool cudnn_enabled=True)`]:
    batchNorm,
  [`instance_norm(Tensor x, ${NORM}, bool use_input_stats=True, float momentum=0.1, float eps=0.00001, bool cudnn_enabled=True)`]:
    instanceNorm,
  'layer_norm(Tensor x, int[] shape, Tensor? weight=None, Tensor? bias=None, float eps=0.00001, bool cudnn_enable=True)':
    normalizeLayer,
  '_native_batch_norm_legit_no_training(Tensor x, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps)':
    withoutStatistics(batchNorm),
  'native_layer_norm(Tensor x, int[] shape, Tensor? weight, Tensor? bias, float eps)':
    withoutStatistics(normalizeLayer),
  'native_group_norm(Tensor x, Tensor? weight, Tensor? bias, Operand N, Operand C, Operand HxW, int num_groups, float eps)':
    withoutStatistics(groupNorm),
  'group_norm(Tensor x, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=0.00001, bool cudnn_enabled=True)':
    groupNorm,
  'rms_norm(Tensor x, int[] shape, Tensor? weight=None, float? eps=None)': rmsNorm,
  'local_response_norm(Tensor x, int size, float alpha=0.0001, float beta=0.75, float k=1.0)': localResponse,
  'dropout(Tensor x, float p=0.5, bool train=True) | feature_dropout(Tensor x, float p=0.5, bool train=True) | alpha_dropout(Tensor x, float p=0.5, bool train=True) | feature_alpha_dropout(Tensor x, float p=0.5, bool train=True)':
    dropout,
};
