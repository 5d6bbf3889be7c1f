/**
 * Every setting of config.yaml: its values, its default, its meaning, and an example. JobConfig, DEFAULT_JOB, the checks,
 * the config.yaml of `init` and docs/reference/config.md are derived from these tables.
 */
import { assertJobName, DEFAULT_JOB_NAME } from '../contract/names.ts';
import type { Targets } from '../contract/notice.ts';
import { parseFilter } from '../pipeline/answer/postprocess.ts';
import { type Ports, portsOf } from './batch-axes.ts';
import { CAPTURE, RELEASE } from './capture-settings.ts';
import { PRESET_NAMES, type PresetName, presetOf } from './image-presets.ts';
import { constantsOf, IGNORABLE, ignoredOf, inputsOf, namesOf, ONE, shapesOf } from './import-values.ts';
import { MODELS } from './models-settings.ts';
import { targetsOf } from './notify-targets.ts';
import { BUDGET, JOBS, QUEUE } from './queue-settings.ts';
import {
  choice,
  fitting,
  flag,
  isHost,
  isOrigin,
  modelPlace,
  number,
  or,
  perChannel,
  type Reader,
  type SettingDefinition,
  setting,
  text,
  texts,
  whole,
} from './readers.ts';
import type { Value } from './value.ts';
import { WORKER } from './worker-settings.ts';

const ports: Reader<Ports> = {
  expected: 'axes by name: {state: {batchAxis: 1}, rate: {batchAxis: none}}',
  read: portsOf,
};

const targets: Reader<Targets> = {
  expected: 'targets by name: {shop: {url: https://shop.example/hooks, secret: /shop/hook-secret}}',
  read: targetsOf,
};

const JOB = {
  modelPath: setting(
    or(modelPlace, 'model'),
    'Folder of the model, relative to this file, `s3://bucket/prefix`, or `hf://org/name@revision` of Hugging Face; start and deployment upload it from there.',
  ),
  jobName: setting(
    or(text(assertJobName), DEFAULT_JOB_NAME),
    'Names queue, results and model: 1 to 60 letters, digits, `-` and `_`.',
  ),
  postProcessing: setting(
    or(text(parseFilter), ''),
    'Filter of the answer: `topN(n)`, the n largest values (equal ones by their index, NaN last), `topN(n, labels)`, with the labels of their classes, or `pickTopN(n)`, the first n rows.',
    { example: 'topN(5)' },
  ),
  inputAlreadyBatched: setting(or(flag, false), 'Whether records carry the batch dimension.'),
  batchSize: setting(or(whole(1, 10_000), 32), 'Most rows of one run of the model.'),
  batching: setting(
    or(choice('proven', 'always', 'never'), 'proven'),
    'Whether records share runs: when that is proven not to change their answers, `always`, or `never`.',
  ),
  inputs: setting(
    or(ports, {}),
    'Inputs whose batch axis is not the first; `none`: the records of a run share the input. A record gives it without that axis.',
    { example: '{state: {batchAxis: 1}, rate: {batchAxis: none}}' },
  ),
  outputs: setting(
    or(ports, {}),
    'Batch axes of outputs, where they are not what the verification says; `none`: it comes as the model gives it.',
    { example: '{boxes: {batchAxis: none}}' },
  ),
  threadPerModel: setting(or(whole(0, 64), 0), 'Threads of one run; 0 is one per vCPU.'),
  processes: setting(
    or(whole(1, 64), 1),
    'Processes in which `start` runs the model, each with the model in its memory. More than one pays where `threadPerModel` leaves vCPUs idle.',
  ),
  modelRefreshSeconds: setting(
    or(whole(1, 86_400), 30),
    'How often a running function looks for a new model.',
  ),
  resultTtlSeconds: setting(or(whole(1, 14 * 86_400), 86_400), 'How long a result stays.'),
  notify: setting(
    or(targets, {}),
    'Who can be told when a record is done, at most 10, by the names that records use. [Be told when it is done](../how-to/be-told-when-it-is-done.md) explains the keys.',
    { example: '{shop: {url: https://shop.example/hooks, secret: /shop/hook-secret}}' },
  ),
};

const SIZE = { byDefault: "the model's, where it is fixed", example: '224' };

const preset: Reader<PresetName> = { expected: `one of ${PRESET_NAMES.join(', ')}`, read: presetOf };

const MAX_PIXELS = 16_384;
const side = whole(1, MAX_PIXELS);
const resized: Reader<number | readonly number[] | 'none' | 'fit'> = {
  expected: 'pixels of the shorter side, [height, width], none or fit',
  read: (value) => {
    if (!Array.isArray(value)) return side.read(value) ?? choice('none', 'fit').read(value);
    const sizes = value.map((one: Value) => side.read(one)).filter((size) => size !== undefined);
    return sizes.length === 2 && value.length === 2 ? sizes : undefined;
  },
};

const IMAGE = {
  preset: setting(
    preset,
    'Channels, scale, mean and std of published nets; the other keys override them. `image: torch` is short for it.',
    { byDefault: 'none', example: 'torch' },
  ),
  width: setting(whole(1, MAX_PIXELS), 'Pixels that an image is scaled to, together with `height`.', SIZE),
  height: setting(whole(1, MAX_PIXELS), 'Pixels that an image is scaled to, together with `width`.', SIZE),
  resize: setting(
    resized,
    'What an image is scaled to before `width` and `height` are cut out of its middle: its shorter side, or `[height, width]`. `none`: it keeps its size. `fit`: it is scaled until it fits, and filled up around.',
    { byDefault: 'scaled to `width` and `height`', example: '256' },
  ),
  resample: setting(
    choice('opencv', 'nearest', 'bilinear', 'bicubic', 'lanczos', 'box', 'hamming'),
    "How it is scaled: OpenCV's bilinear, or a filter of Pillow.",
    { byDefault: '`opencv`', example: 'bicubic' },
  ),
  middle: setting(
    choice('floor', 'round'),
    'Which way half a pixel of the middle goes: `floor` as in Transformers, `round` as in torchvision.',
    { byDefault: '`floor`', example: 'floor' },
  ),
  fill: setting(whole(0, 255), 'Red, green and blue of what is filled up.', {
    byDefault: '0',
    example: '114',
  }),
  channels: setting(choice('bgr', 'rgb', 'grey'), 'Order of the channels.', {
    byDefault: '`bgr`; `grey` for a model with one channel',
    example: 'bgr',
  }),
  layout: setting(choice('chw', 'hwc'), 'Channels before or behind height and width.', {
    byDefault: "that of the model's input, else `chw`",
    example: 'chw',
  }),
  scale: setting(number, 'value = (pixel × scale − mean) / std, with a pixel from 0 to 255.', {
    byDefault: '1',
    example: '1',
  }),
  mean: setting(
    perChannel('a number, or a list of 3', () => true),
    'One number, or one for each channel: `[103.9, 116.8, 123.7]`.',
    { byDefault: '0', example: '0' },
  ),
  std: setting(
    perChannel('a number that is not 0, or a list of 3', (value) => value !== 0),
    'One number, or one for each channel.',
    { byDefault: '1', example: '1' },
  ),
};

const names: Reader<readonly string[]> = { expected: 'names, each once: [a, b]', read: namesOf };

const IMPORT = {
  inputs: setting(
    {
      expected:
        'names [a, b], each once, or shapes by name {a: [N, 3, 224, 224]} or {a: "N,3,224,224"} (a word is a free size)',
      read: inputsOf,
    },
    'Names of the inputs, or their shapes by name, in which a word is a free size.',
    { byDefault: "the file's", example: '{data: [N, 3, 224, 224]}' },
  ),
  shapes: setting(
    { expected: 'whole numbers [3, 224, 224], or such a list for each input in order', read: shapesOf },
    'PyTorch and BigDL: shapes of the inputs of a record in their order, without the batch. `inputs` says them by name.',
    { byDefault: "the file's", example: '[[3, 224, 224], [1]]' },
  ),
  outputs: setting(names, 'Names of the outputs.', { byDefault: "the file's", example: '[prob]' }),
  constants: setting(
    { expected: 'numbers by name: {keep_prob: 1}', read: constantsOf },
    'Inputs to replace by one number.',
    { byDefault: 'none', example: '{keep_prob: 1}' },
  ),
  signature: setting(
    fitting('a name', (name) => name !== '' && name.length <= 512),
    'Signature of a SavedModel.',
    { byDefault: '`serving_default`', example: 'serving_default' },
  ),
  tags: setting(names, "Tags of a SavedModel's meta graph.", { byDefault: '`serve`', example: '[serve]' }),
  missing: setting(
    number,
    'XGBoost: the number that stands for a missing value beside NaN, as in `XGBClassifier(missing=-999)`. Its files do not say it.',
    { byDefault: 'none', example: '-999' },
  ),
  file: setting(
    fitting('the name of a file', (name) => name !== '' && name.length <= 512),
    'Which file of the folder is the model, where it holds several: `best.onnx` beside `best.pt`.',
    { byDefault: 'the only one', example: 'best.onnx' },
  ),
  variant: setting(
    fitting('the end of a name', (name) => /^\w[\w.-]{0,60}$/.test(name)),
    'Which variant of the model: `quantized` takes `model_quantized.onnx`.',
    { byDefault: 'the plain one', example: 'quantized' },
  ),
  before: setting(ONE, 'ONNX file beside the model that runs before it: both become one model.', {
    byDefault: 'none',
    example: 'preprocessor.onnx',
  }),
  ignore: setting(
    { expected: `files among ${IGNORABLE.join(', ')}`, read: ignoredOf },
    'Files that say how inputs are made, where clients do that themselves.',
    { byDefault: 'none', example: '[preprocessor_config.json]' },
  ),
};

/** Node and onnxruntime start in 0.4 to 1 s, and the records need time too; 3 s is also Lambda's default. */
const LEAST_TIMEOUT_SECONDS = 3;
const TIME_TO_START = 'records that came back run in a process of their own, which has to start first';

const FUNCTION = {
  memoryMB: setting(or(whole(128, 10_240), 1769), 'Memory of `predict` and `batch`; 1769 MB are one vCPU.'),
  timeoutSeconds: setting(
    or(whole(LEAST_TIMEOUT_SECONDS, 900, TIME_TO_START), 30),
    'Time limit of the batch function, and of `POST /predict` up to 29 s.',
  ),
};

const HTTP = {
  tokenBucketEnabled: setting(
    or(flag, false),
    'Whether `POST /predict` over `tokensPerSecond` is answered with 429.',
  ),
  tokensPerSecond: setting(
    or(whole(1, 10_000), 100),
    'Requests a second of all callers together; as many may come at once.',
    { above: 'Answered with `rate_limited`, where `http.tokenBucketEnabled` is on.' },
  ),
  tokenAcquireTimeoutMs: setting(or(whole(0, 28_000), 100), 'How long a request waits for a token.'),
  // API Gateway gives up after 30 s.
  timeoutMs: setting(
    whole(1, 29_000),
    'How long `POST /predict` may take; Lambda counts whole seconds, rounded up.',
    {
      byDefault: '`function.timeoutSeconds`, at most 29,000 ms',
      example: '29000',
      above: 'Answered with `timeout`.',
    },
  ),
  corsOrigins: setting(
    or(texts('origins like "https://example.com", or "*"', isOrigin), []),
    'Origins whose pages may call from a browser: `["https://example.com"]`; `"*"` is every origin.',
  ),
  allowedHosts: setting(
    or(texts('names in lower case, without a port', isHost), []),
    'Names by which clients may call the service of `cluster-serving start`, besides those of its machine: `[ml.example.com]` of a proxy.',
  ),
};

/** The settings by the key of their group; '' is the top of the file. */
export const GROUPS = {
  '': JOB,
  image: IMAGE,
  import: IMPORT,
  queue: QUEUE,
  jobs: JOBS,
  function: FUNCTION,
  http: HTTP,
  budget: BUDGET,
  models: MODELS,
  capture: CAPTURE,
  release: RELEASE,
  worker: WORKER,
};

/** Every setting by its path, e.g. `queue.batchSize`. */
export const SETTINGS: ReadonlyMap<string, SettingDefinition<unknown>> = new Map(
  Object.entries(GROUPS).flatMap(([group, settings]) =>
    Object.entries(settings).map(([key, one]) => [group === '' ? key : `${group}.${key}`, one] as const),
  ),
);
