/**
 * Every key of the old configs (0.7 to 0.9 nested, 0.10 to BigDL 2 flat), of servables.yaml and of the old front end's
 * options, and its replacement. No old key is silently ignored: one without a use here says what replaces it.
 * docs/reference/config.md is written from this table.
 */
import { badConfig } from '../contract/errors.ts';
import { shown, type Value } from './value.ts';

/** Returns a value for each current setting; [] when none is needed. */
type Convert = (
  value: Value,
  valueOf: (oldKey: string) => Value | undefined,
) => readonly (readonly [path: string, value: Value])[];

export type LegacyKey =
  | { readonly outcome: 'works'; readonly text: string; readonly sets: string; readonly convert?: Convert }
  | { readonly outcome: 'replaced'; readonly text: string }
  /** True is refused; false is the behaviour anyway. */
  | { readonly outcome: 'refused'; readonly text: string };

const works = (sets: string, text: string, convert?: Convert): LegacyKey => ({
  outcome: 'works',
  sets,
  text,
  ...(convert ? { convert } : {}),
});
const replaced = (text: string): LegacyKey => ({ outcome: 'replaced', text });
const refused = (text: string): LegacyKey => ({ outcome: 'refused', text });

const imageSize = (height: Value, width: Value) =>
  [
    ['image.height', height],
    ['image.width', width],
  ] as const;

/** `224,448` is height and width. */
const fromResize: Convert = (value) => {
  if (value === '') return [];
  const [height, width, ...rest] = parts(value);
  if (height === undefined || width === undefined || rest.length > 0) {
    throw badConfig(`expected "height,width", got ${shown(value)}`);
  }
  return imageSize(height, width);
};

const isChannels = (part: Value | undefined) => part === '3' || part === '1';

function isImageShape(shape: Value): boolean {
  const [first, second, third, ...rest] = parts(shape);
  const hasThree = second !== undefined && third !== undefined && rest.length === 0;
  return hasThree && (isChannels(first) || isChannels(third));
}

/** The guide has both orders: 3,224,224 and 224,224,3. The layout itself is read off the model. */
const sizeOfShape = (value: Value) => {
  const [first, second, third, ...rest] = parts(value);
  if (first !== undefined && second !== undefined && third !== undefined && rest.length === 0) {
    if (isChannels(first)) return imageSize(second, third);
    if (isChannels(third)) return imageSize(first, second);
  }
  throw badConfig(
    `expected the shape of an image, "channels,height,width" with 1 or 3 channels, got ${shown(value)}`,
  );
};

const SHAPE_KEYS = ['data.shape', 'data.image_shape', 'data.tensor_shape'];

/** The config that an import uses, unless two keys set it. */
const shapesOnce = (shapes: readonly Value[], valueOf: (oldKey: string) => Value | undefined) =>
  SHAPE_KEYS.filter((key) => valueOf(key) !== undefined).length > 1
    ? []
    : [['import.shapes', shapes.map(parts)] as const];

const fromImageShape: Convert = (value, valueOf) => [...sizeOfShape(value), ...shapesOnce([value], valueOf)];

const fromTensorShape: Convert = (value, valueOf) => shapesOnce([bracketed(value)], valueOf);

/** One shape, or one per input of `data.type`. Without types, those of several that could be of images are. */
const fromShape: Convert = (value, valueOf) => {
  if (value === '') return [];
  const list = bracketed(value);
  const isNested = Array.isArray(list) && list.some(Array.isArray);
  const shapes = isNested ? list : [list];
  const given = valueOf('data.type') ?? valueOf('data.data_type');
  const types = parts(given ?? 'image');
  const isImage = (shape: Value, i: number) => {
    if (given === undefined && shapes.length > 1) return isImageShape(shape);
    const type = types[i];
    return typeof type === 'string' && type.toLowerCase() === 'image';
  };
  const images = shapes.filter(isImage).map(sizeOfShape);
  if (new Set(images.map((size) => JSON.stringify(size))).size > 1) {
    throw badConfig('expected one size for all images of a record, got several');
  }
  return [...(images[0] ?? []), ['import.shapes', shapes.map(parts)]];
};

const fromTopN: Convert = (value) => {
  if (typeof value !== 'string' || !/^\d{1,9}$/.test(value) || Number(value) < 1) {
    throw badConfig(`expected a whole number >= 1, got ${shown(value)}`);
  }
  return [['postProcessing', `topN(${value})`]];
};

/** `3, 224, 224` and [3, 224, 224] are the same. */
function parts(value: Value): readonly Value[] {
  if (typeof value === 'string') return value.split(',').map((part) => part.trim());
  return Array.isArray(value) ? value : [];
}

/** A list that was quoted: "[[1,2],[3,224,224]]". Anything else unchanged. */
function bracketed(value: Value): Value {
  if (typeof value !== 'string' || !value.trim().startsWith('[') || value.length > 1_000) return value;
  try {
    return texts(JSON.parse(value), 0);
  } catch {
    return value;
  }
}

function texts(json: unknown, depth: number): Value {
  return Array.isArray(json) && depth < 3 ? json.map((item) => texts(item, depth + 1)) : String(json);
}

const SAME = 'the same key here';
const LAMBDA_SCALES = 'Lambda starts and stops the machines; there is no cluster to size';
const NO_FLINK = 'there is no Flink: Lambda runs the functions';
const OWN_REDIS = 'the stack makes its own Redis; `cluster-serving start` prints its address';
const OWN_QUEUE = 'the stack makes its own queue, in SQS';
const REDIS_SIZE = "the deployment's `--param redisNodeType` is the size of Redis";
const REDIS_WAIT = 'connecting to Redis and each command have 1 s';
const REDIS_TLS = 'a deployed stack always speaks TLS with Redis';
const NO_TRUST_STORE = "no trust store: AWS's certificates are known; take the key, and any password, out";
const CONCURRENCY = 'a Lambda environment has one model; `queue.maximumConcurrency` is how many run';
const VCPUS = '`function.memoryMB` buys vCPUs, 1769 each; `threadPerModel: 0` uses them all';
const FOR_IMPORT = 'a file of PyTorch or BigDL takes its shapes from here';
const TENSOR_NAMES = 'names in a TensorFlow graph; an ONNX model says its own';
const READ_OFF_VALUE = 'read off each value and the model';
const HTTPS = 'API Gateway answers over HTTPS, with its own certificate';
const ONE_MODEL = 'a stack serves one model, named by `jobName`; write a config for each';
const RESULT_KEYS = 'results lie under `cluster-serving_<jobName>:<uri>`';
const WINDOW_MS = '`POST /predict` runs at once; records of the queue are gathered for `queue.windowSeconds`';
const WINDOW_COUNT =
  '`POST /predict` runs at once; records of the queue are gathered up to `queue.batchSize`';
const PLAIN_MODEL =
  'encrypted models are not supported: decrypt the model before you publish it; its bucket is private and encrypted';
const PLAIN_RECORDS =
  'encrypted records are not supported: send them as they are; HTTPS, the queue and Redis encrypt them';
const TOKENS = 'the token bucket of `POST /predict`';

const batchRows = works('batchSize', 'the guide: "the batch size you use for model inference"');

/** Options of the HTTP front end that each of its servables has too. */
const FRONT_END = {
  redisHost: replaced(OWN_REDIS),
  redisPort: replaced(OWN_REDIS),
  redisInputQueue: works('jobName', 'it was the name of the job'),
  redisOutputQueue: replaced(RESULT_KEYS),
  timeWindow: replaced(WINDOW_MS),
  countWindow: replaced(WINDOW_COUNT),
  tokenBucketEnabled: works('http.tokenBucketEnabled', TOKENS),
  tokensPerSecond: works('http.tokensPerSecond', TOKENS),
};

/** Keys as the old files spell them; case, `_` and `-` do not count. */
export const LEGACY: ReadonlyMap<string, LegacyKey> = new Map(
  Object.entries({
    // Flat: 0.10 to BigDL 2.
    modelPath: works('modelPath', SAME),
    jobName: works('jobName', SAME),
    postProcessing: works('postProcessing', SAME),
    imageResize: works('image.height, image.width', '`height,width`', fromResize),
    inputAlreadyBatched: works('inputAlreadyBatched', SAME),
    coreNumberPerMachine: replaced(VCPUS),
    modelParallelism: replaced(CONCURRENCY),
    threadPerModel: works('threadPerModel', `${SAME}; the default is one thread per vCPU`),
    performance_mode: replaced(VCPUS),
    flinkRestUrl: replaced(NO_FLINK),
    queueUsed: replaced(OWN_QUEUE),
    kafkaUrl: replaced(OWN_QUEUE),
    redisUrl: replaced(OWN_REDIS),
    redisMaxMemory: replaced(REDIS_SIZE),
    redisTimeout: replaced(REDIS_WAIT),
    redisSecureEnabled: replaced(REDIS_TLS),
    redisSecureTrustStorePath: replaced(NO_TRUST_STORE),
    redisSecureTrustStorePassword: replaced(NO_TRUST_STORE),
    redisSecureStructStorePassword: replaced(NO_TRUST_STORE),
    secureEnabled: replaced(REDIS_TLS),
    secureTrustStorePath: replaced(NO_TRUST_STORE),
    secureStructStorePassword: replaced(NO_TRUST_STORE),
    modelEncrypted: refused(PLAIN_MODEL),
    recordEncrypted: refused(PLAIN_RECORDS),

    // Nested: 0.7 to 0.9.
    'model.path': works('modelPath', 'its new name'),
    'model.name': works('jobName', 'its new name'),
    'model.mode': replaced('whether records can share a run is measured when the model is opened'),
    'model.inputs': works('import.inputs', TENSOR_NAMES),
    'model.outputs': works('import.outputs', TENSOR_NAMES),
    'data.src': replaced(OWN_REDIS),
    'data.image_shape': works(
      'image.height, image.width, import.shapes',
      '`3,224,224` or `224,224,3`; the layout is read off the model',
      fromImageShape,
    ),
    'data.shape': works(
      'image.height, image.width, import.shapes',
      `${FOR_IMPORT}; the size of images is that of the input whose \`data.type\` is image`,
      fromShape,
    ),
    'data.type': replaced(READ_OFF_VALUE),
    'data.data_type': replaced(READ_OFF_VALUE),
    'data.tensor_shape': works('import.shapes', FOR_IMPORT, fromTensorShape),
    'data.filter': works('postProcessing', 'its new name'),
    'data.resize': replaced("images are scaled to `imageResize`, or to the model's own size"),
    'data.batched': works('inputAlreadyBatched', 'its new name'),
    'params.batch_size': batchRows,
    'params.core_number': batchRows,
    'params.model_number': replaced(CONCURRENCY),
    'params.performance_mode': replaced(VCPUS),
    'params.top_n': works('postProcessing', '`3` is `topN(3)`', fromTopN),
    'params.engine_type': replaced('ONNX Runtime runs every model'),
    'redis.maxmem': replaced(REDIS_SIZE),
    'redis.timeout': replaced(REDIS_WAIT),
    'secure.secure_enabled': replaced(REDIS_TLS),
    'secure.secure_trust_store_path': replaced(NO_TRUST_STORE),
    'secure.secure_struct_store_password': replaced(NO_TRUST_STORE),
    'secure.model_encrypted': refused(PLAIN_MODEL),
    'secure.record_encrypted': refused(PLAIN_RECORDS),
    'flink.rest': replaced(NO_FLINK),
    'spark.master': replaced(LAMBDA_SCALES),
    'spark.driver_memory': replaced(LAMBDA_SCALES),
    'spark.executor_memory': replaced(LAMBDA_SCALES),
    'spark.num_executors': replaced(LAMBDA_SCALES),
    'spark.executor_cores': replaced(LAMBDA_SCALES),
    'spark.total_executor_cores': replaced(LAMBDA_SCALES),
    'log.error': replaced('logs go to CloudWatch'),
    'log.summary': replaced('logs go to CloudWatch'),

    // Options of the HTTP front end.
    interface: replaced('API Gateway has the address; `cluster-serving start` listens on 127.0.0.1'),
    port: replaced('API Gateway has the address; on one machine it is `cluster-serving start --port`'),
    securePort: replaced(HTTPS),
    httpsEnabled: replaced(HTTPS),
    httpsKeyStorePath: replaced(HTTPS),
    httpsKeyStoreToken: replaced(HTTPS),
    ...FRONT_END,
    redissTrustStorePath: replaced(NO_TRUST_STORE),
    redissTrustStoreToken: replaced(NO_TRUST_STORE),
    parallelism: replaced('every request under way has a Lambda environment to itself'),
    tokenAcquireTimeout: works('http.tokenAcquireTimeoutMs', `${TOKENS}, in ms`),
    servableManagerConfPath: replaced(ONE_MODEL),

    // servables.yaml of the front end, with one model in it.
    'modelMetaDataList.type': replaced(ONE_MODEL),
    'modelMetaDataList.modelName': replaced(ONE_MODEL),
    'modelMetaDataList.modelVersion': replaced('a version is made from the content of the model'),
    'modelMetaDataList.modelPath': works('modelPath', SAME),
    'modelMetaDataList.modelType': replaced('every model is an ONNX file'),
    'modelMetaDataList.weightPath': replaced('every model is an ONNX file'),
    'modelMetaDataList.modelConCurrentNum': replaced(CONCURRENCY),
    'modelMetaDataList.inputCompileType': replaced(READ_OFF_VALUE),
    'modelMetaDataList.features': replaced('inputs bind by name'),
    ...Object.fromEntries(Object.entries(FRONT_END).map(([key, rule]) => [`modelMetaDataList.${key}`, rule])),
    'modelMetaDataList.redisSecureEnabled': replaced(REDIS_TLS),
    'modelMetaDataList.redisTrustStorePath': replaced(NO_TRUST_STORE),
    'modelMetaDataList.redisTrustStoreToken': replaced(NO_TRUST_STORE),
  }),
);

/** The one group whose value is a list: of models. */
export const SERVABLES = 'modelMetaDataList';
export const SERVABLES_REFUSED = ONE_MODEL;
