/** The layers of torch.nn that a pickled module may consist of: attributes of the object become arguments. */
import { callEntry } from '../aten/schema.ts';
import type { Context } from '../run/context.ts';
import { TensorRef } from '../run/tensor.ts';
import { Dict, Float, type Obj, type Py, refuse, Tuple } from '../run/values.ts';
import { FUNCTIONS, operate } from './functional.ts';

/** Reads an attribute, parameter or buffer of the layer; null when it has none. */
export type Get = (name: string) => Py;
type Layer = (c: Context, get: Get, args: readonly Py[]) => Py;

function functional(c: Context, name: string, args: readonly Py[]): Py {
  const entries = FUNCTIONS.get(name);
  const result = entries ? callEntry(c, entries, args, new Map()) : operate(c, name, ...args);
  const isValue =
    typeof result === 'object' && result !== null && 'dtype' in result && !(result instanceof TensorRef);
  return isValue ? c.tensor(result) : result;
}

/** A function of the input and of these attributes. */
const by =
  (name: string, ...attributes: string[]): Layer =>
  (c, get, [x]) =>
    functional(c, name, [x ?? null, ...attributes.map(get)]);

const conv =
  (n: number): Layer =>
  (c, get, [x]) => {
    const mode = get('padding_mode');
    const rest = ['dilation', 'groups'].map(get);
    const weights = [get('weight'), get('bias'), get('stride')];
    if (mode === null || mode === 'zeros')
      return operate(c, `conv${n}d`, x ?? null, ...weights, get('padding'), ...rest);
    const pads = get('_reversed_padding_repeated_twice');
    const padded = operate(c, 'pad', x ?? null, pads, mode);
    return operate(c, `conv${n}d`, padded, ...weights, 0, ...rest);
  };

const convTranspose =
  (n: number): Layer =>
  (c, get, args) => {
    if (args.length > 1) return refuse('an output_size is not supported');
    const names = ['weight', 'bias', 'stride', 'padding', 'output_padding', 'groups', 'dilation'];
    return operate(c, `conv_transpose${n}d`, args[0] ?? null, ...names.map(get));
  };

const batchNorm: Layer = (c, get, [x]) => {
  const isTraining = get('training') === true || get('running_mean') === null;
  const values = ['weight', 'bias', 'running_mean', 'running_var'].map(get);
  return operate(
    c,
    'batch_norm',
    x ?? null,
    ...values,
    isTraining,
    get('momentum') ?? new Float(0.1),
    get('eps'),
  );
};

const instanceNorm: Layer = (c, get, [x]) => {
  const usesInput = get('training') === true || get('track_running_stats') !== true;
  const values = ['weight', 'bias', 'running_mean', 'running_var'].map(get);
  return operate(c, 'instance_norm', x ?? null, ...values, usesInput, get('momentum'), get('eps'));
};

const dropout: Layer = (c, get, [x]) => operate(c, 'dropout', x ?? null, get('p'), get('training') === true);

const flatten: Layer = (c, get, [x]) =>
  operate(c, 'flatten', x ?? null, get('start_dim') ?? 1, get('end_dim') ?? -1);

/** The initial states are zeros unless given. */
const recurrent =
  (mode: 'lstm' | 'gru' | 'rnn'): Layer =>
  (c, get, [x, given]) => {
    if (!(x instanceof TensorRef)) return refuse('needs a tensor; packed sequences are not supported');
    if (x.shape.length !== 3) return refuse('needs 3 dimensions');
    const [layers, hidden, isBidirectional] = [
      get('num_layers'),
      get('hidden_size'),
      get('bidirectional') === true,
    ];
    if (typeof layers !== 'number' || typeof hidden !== 'number' || layers > 1000)
      return refuse('has a broken size');
    if ((get('proj_size') ?? 0) !== 0) return refuse('with a projection is not supported');
    const isBatchFirst = get('batch_first') === true;
    const batch = c.sizeOf(x.value, isBatchFirst ? 0 : 1);
    const sizes = c.list([layers * (isBidirectional ? 2 : 1), batch, hidden]);
    const zeros = () => operate(c, 'zeros', sizes);
    const hx = given ?? (mode === 'lstm' ? new Tuple([zeros(), zeros()]) : zeros());
    const hasBias = get('bias') !== false;
    const names = Array.from({ length: layers }, (_, layer) =>
      (isBidirectional ? ['', '_reverse'] : ['']).flatMap((suffix) =>
        ['weight_ih', 'weight_hh', ...(hasBias ? ['bias_ih', 'bias_hh'] : [])].map(
          (kind) => `${kind}_l${layer}${suffix}`,
        ),
      ),
    );
    const params = c.list(names.flat().map(get));
    const own =
      mode === 'rnn'
        ? get('nonlinearity') === 'relu' || get('mode') === 'RNN_RELU'
          ? 'rnn_relu'
          : 'rnn_tanh'
        : mode;
    const tail = [
      hasBias,
      layers,
      get('dropout') ?? 0,
      get('training') === true,
      isBidirectional,
      isBatchFirst,
    ];
    const made = operate(c, own, x, hx, params, ...tail);
    const [sequence, ...states] = made instanceof Tuple ? made.items : [];
    return new Tuple([sequence ?? null, mode === 'lstm' ? new Tuple(states) : (states[0] ?? null)]);
  };

const embedding: Layer = (c, get, [x]) =>
  functional(c, 'embedding', [x ?? null, get('weight'), get('padding_idx'), get('max_norm')]);

const softmax =
  (name: string): Layer =>
  (c, get, [x]) =>
    functional(c, name, [x ?? null, get('dim')]);

const softmax2d: Layer = (c, _, [x]) => operate(c, 'softmax', x ?? null, -3);

const pad =
  (mode: string): Layer =>
  (c, get, [x]) =>
    operate(c, 'pad', x ?? null, get('padding'), mode, mode === 'constant' ? (get('value') ?? 0) : null);

const upsample: Layer = (c, get, [x]) => {
  const factor = get('scale_factor');
  const corners = get('align_corners');
  return functional(c, 'interpolate', [
    x ?? null,
    get('size'),
    factor,
    get('mode') ?? 'nearest',
    corners === true,
  ]);
};

const maxPool =
  (n: number): Layer =>
  (c, get, [x]) => {
    const names = ['kernel_size', 'stride', 'padding', 'dilation', 'ceil_mode', 'return_indices'];
    return functional(c, `max_pool${n}d`, [x ?? null, ...names.map(get)]);
  };

const unflatten: Layer = (c, get, [x]) =>
  operate(c, 'unflatten', x ?? null, get('dim'), get('unflattened_size'));

const each = (make: (n: number) => Record<string, Layer>): Record<string, Layer> =>
  Object.assign({}, ...[1, 2, 3].map(make)) as Record<string, Layer>;

/** By the class's name in torch.nn. Containers are run by the interpreter. */
export const LAYERS: Readonly<Record<string, Layer>> = {
  ...each((n) => ({
    [`Conv${n}d`]: conv(n),
    [`ConvTranspose${n}d`]: convTranspose(n),
    [`BatchNorm${n}d`]: batchNorm,
    [`InstanceNorm${n}d`]: instanceNorm,
    [`MaxPool${n}d`]: maxPool(n),
    [`AvgPool${n}d`]: by(
      `avg_pool${n}d`,
      'kernel_size',
      'stride',
      'padding',
      'ceil_mode',
      'count_include_pad',
    ),
    [`AdaptiveAvgPool${n}d`]: by(`adaptive_avg_pool${n}d`, 'output_size'),
    [`AdaptiveMaxPool${n}d`]: by(`adaptive_max_pool${n}d`, 'output_size'),
    [`Dropout${n}d`]: dropout,
    [`ConstantPad${n}d`]: pad('constant'),
    [`ZeroPad${n}d`]: pad('constant'),
    [`ReflectionPad${n}d`]: pad('reflect'),
    [`ReplicationPad${n}d`]: pad('replicate'),
  })),
  Identity: (_, __, [x]) => x ?? null,
  Linear: by('linear', 'weight', 'bias'),
  Bilinear: (c, get, [x, y]) => operate(c, 'bilinear', x ?? null, y ?? null, get('weight'), get('bias')),
  Embedding: embedding,
  LayerNorm: by('layer_norm', 'normalized_shape', 'weight', 'bias', 'eps'),
  GroupNorm: by('group_norm', 'num_groups', 'weight', 'bias', 'eps'),
  LocalResponseNorm: by('local_response_norm', 'size', 'alpha', 'beta', 'k'),
  Dropout: dropout,
  AlphaDropout: dropout,
  Flatten: flatten,
  Unflatten: unflatten,
  ReLU: by('relu', 'inplace'),
  ReLU6: by('relu6', 'inplace'),
  LeakyReLU: by('leaky_relu', 'negative_slope', 'inplace'),
  PReLU: by('prelu', 'weight'),
  ELU: by('elu', 'alpha', 'inplace'),
  CELU: by('celu', 'alpha', 'inplace'),
  SELU: by('selu', 'inplace'),
  GELU: (c, get, [x]) => operate(c, 'gelu', x ?? null, get('approximate') ?? 'none'),
  SiLU: by('silu', 'inplace'),
  Mish: by('mish', 'inplace'),
  Hardswish: by('hardswish', 'inplace'),
  Hardsigmoid: by('hardsigmoid', 'inplace'),
  Hardtanh: by('hardtanh', 'min_val', 'max_val', 'inplace'),
  Sigmoid: by('sigmoid'),
  Tanh: by('tanh'),
  Softplus: by('softplus', 'beta', 'threshold'),
  Softsign: by('softsign'),
  Softshrink: by('softshrink', 'lambd'),
  Hardshrink: by('hardshrink', 'lambd'),
  Tanhshrink: by('tanhshrink'),
  LogSigmoid: by('logsigmoid'),
  Threshold: by('threshold', 'threshold', 'value', 'inplace'),
  GLU: by('glu', 'dim'),
  Softmax: softmax('softmax'),
  LogSoftmax: softmax('log_softmax'),
  Softmax2d: softmax2d,
  LSTM: recurrent('lstm'),
  GRU: recurrent('gru'),
  RNN: recurrent('rnn'),
  Upsample: upsample,
  UpsamplingNearest2d: upsample,
  UpsamplingBilinear2d: upsample,
  PixelShuffle: by('pixel_shuffle', 'upscale_factor'),
  PixelUnshuffle: by('pixel_unshuffle', 'downscale_factor'),
  ChannelShuffle: by('channel_shuffle', 'groups'),
  CosineSimilarity: (c, get, [x, y]) =>
    operate(c, 'cosine_similarity', x ?? null, y ?? null, get('dim'), get('eps')),
};

/** The named children of a module, in order. */
export function childrenOf(module: Obj): ReadonlyMap<string, Py> {
  const modules = module.attributes.get('_modules');
  return modules instanceof Dict
    ? new Map([...modules.items].map(([name, child]) => [String(name), child]))
    : new Map();
}
