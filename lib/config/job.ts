/**
 * A job's settings with unit and default; config.yaml is read into exactly this type. Functions import this file and
 * not the reader beside it, so no YAML or schema code reaches a bundle.
 */
import { DEFAULT_JOB_NAME } from '../contract/names.ts';

/** How images become tensors. What is left out follows from the model's input, then from the old contract. */
interface ImageConfig {
  /** Pixels that an image is scaled to. Default: the model's, where it is fixed. */
  readonly width?: number;
  /** Pixels that an image is scaled to. Default: the model's, where it is fixed. */
  readonly height?: number;
  /** Order of the channels. Default: `bgr`; `grey` for a model with one channel. */
  readonly channels?: 'bgr' | 'rgb' | 'grey';
  /** Channels before or behind height and width. Default: that of the model's input shape, else `chw`. */
  readonly layout?: 'chw' | 'hwc';
  /** value = (pixel × scale − mean) / std, with a pixel from 0 to 255. Default: 1. */
  readonly scale?: number;
  /** One number, or one for each channel. Default: 0. */
  readonly mean?: readonly number[];
  /** One number, or one for each channel. Default: 1. */
  readonly std?: readonly number[];
}

/** How a model that is no ONNX becomes one. What is left out follows from the model's own files. */
export interface ImportConfig {
  /** Names of the inputs, or their shapes by name, in which a word is a free size. Default: the file's. */
  readonly inputs?: readonly string[] | Readonly<Record<string, readonly (number | string)[]>>;
  /** Names of the outputs. Default: the file's. */
  readonly outputs?: readonly string[];
  /** Inputs to replace by one number. Default: none. */
  readonly constants?: Readonly<Record<string, number>>;
  /** Signature of a SavedModel. Default: `serving_default`. */
  readonly signature?: string;
  /** Tags of a SavedModel's meta graph. Default: `serve`. */
  readonly tags?: readonly string[];
}

/** docs/reference/config.md is written from these comments, DEFAULT_JOB and the schema. Units are in the names. */
export interface JobConfig {
  /** Names queue, results and model: 1 to 60 letters, digits, `-` and `_`. */
  readonly jobName: string;
  /** Folder of the model, relative to the config file; start and deployment upload it from this machine. */
  readonly modelPath: string;
  /** Filter of the answer: `topN(n)` or `pickTopN(n)`. */
  readonly postProcessing: string;
  /** Whether records carry the batch dimension. */
  readonly inputAlreadyBatched: boolean;
  /** Most rows of one run of the model. */
  readonly batchSize: number;
  /** Threads of one run; 0 is one per vCPU. */
  readonly threadPerModel: number;
  /** How often a running function looks for a new model. */
  readonly modelRefreshSeconds: number;
  /** How long a result stays. */
  readonly resultTtlSeconds: number;
  readonly image: ImageConfig;
  readonly import: ImportConfig;
  readonly queue: {
    /** Records of one call of the batch function. Above 10 needs `queue.windowSeconds`. */
    readonly batchSize: number;
    /** How long SQS gathers the records of a call. */
    readonly windowSeconds: number;
    /** Batch functions at the same time; `npm start` runs two, which share the model. */
    readonly maximumConcurrency: number;
    /** Deliveries of a record before it becomes a dead letter. */
    readonly maxReceiveCount: number;
  };
  readonly function: {
    /** Memory of `predict` and `batch`; 1769 MB are one vCPU. */
    readonly memoryMB: number;
    /**
     * Time limit of the batch function, and of `POST /predict` up to 29 s. Redelivered records run in a process of their
     * own, which has to start within it.
     */
    readonly timeoutSeconds: number;
  };
  readonly http: {
    /** Whether `POST /predict` over `http.tokensPerSecond` is answered with 429. */
    readonly tokenBucketEnabled: boolean;
    /** Requests a second of all callers together; as many may come at once. */
    readonly tokensPerSecond: number;
    /** How long a request waits for a token. */
    readonly tokenAcquireTimeoutMs: number;
    /**
     * How long `POST /predict` may take; Lambda counts whole seconds, rounded up.
     * Default: `function.timeoutSeconds`, at most 29,000 ms.
     */
    readonly timeoutMs?: number;
    /** Origins whose pages may call from a browser: `https://example.com`; `*` is every origin. */
    readonly corsOrigins: readonly string[];
  };
}

/** API Gateway waits 30 s; the function ends first, so that the answer is ours. */
const MAX_PREDICT_SECONDS = 29;

export const DEFAULT_JOB: JobConfig = {
  jobName: DEFAULT_JOB_NAME,
  modelPath: 'model',
  postProcessing: '',
  inputAlreadyBatched: false,
  batchSize: 32,
  threadPerModel: 0,
  modelRefreshSeconds: 30,
  resultTtlSeconds: 86_400,
  image: {},
  import: {},
  queue: { batchSize: 10, windowSeconds: 0, maximumConcurrency: 10, maxReceiveCount: 5 },
  function: { memoryMB: 1769, timeoutSeconds: 30 },
  http: { tokenBucketEnabled: false, tokensPerSecond: 100, tokenAcquireTimeoutMs: 100, corsOrigins: [] },
};

/** SQS must hide a message for six times what its function may take, or a slow batch is delivered twice. */
export function visibilityTimeoutSeconds(job: JobConfig): number {
  return 6 * job.function.timeoutSeconds + job.queue.windowSeconds;
}

/** Of the predict function. Lambda counts whole seconds, so http.timeoutMs is rounded up. */
export function predictTimeoutSeconds({ http, function: { timeoutSeconds } }: JobConfig): number {
  const seconds = http.timeoutMs === undefined ? timeoutSeconds : Math.ceil(http.timeoutMs / 1000);
  return Math.min(seconds, MAX_PREDICT_SECONDS);
}
