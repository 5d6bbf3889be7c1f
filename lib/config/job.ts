/**
 * A job's settings with unit and default; config.yaml is read into exactly this type. Functions import this file and
 * not the reader beside it, so no YAML or schema code reaches a bundle.
 */
import { DEFAULT_JOB_NAME } from '../contract/names.ts';

/** How images become tensors. What is left out follows from the model's input, then from the old contract. */
interface ImageConfig {
  /** Target size in pixels. Default: the model's own, where it is fixed. */
  readonly width?: number;
  readonly height?: number;
  /** Default: bgr; grey for a model with one channel. */
  readonly channels?: 'bgr' | 'rgb' | 'grey';
  /** Default: read off the model's input shape, else chw. */
  readonly layout?: 'chw' | 'hwc';
  /** value = (pixel * scale - mean) / std, pixel 0..255. Default 1. */
  readonly scale?: number;
  /** One number, or one per channel. Default 0. */
  readonly mean?: readonly number[];
  /** One number, or one per channel. Default 1. */
  readonly std?: readonly number[];
}

/** How a model that is no ONNX becomes one. What is left out follows from the model's own files. */
export interface ImportConfig {
  /** Names of the inputs, or their shapes by name; a text is a free size. */
  readonly inputs?: readonly string[] | Readonly<Record<string, readonly (number | string)[]>>;
  /** Names of the outputs. */
  readonly outputs?: readonly string[];
  /** Inputs to replace by one number (`keep_prob: 1`). */
  readonly constants?: Readonly<Record<string, number>>;
  /** Of a SavedModel. Default serving_default. */
  readonly signature?: string;
  /** Of a SavedModel's meta graph. Default serve. */
  readonly tags?: readonly string[];
}

export interface JobConfig {
  /** Names queue, results and model. Default serving_stream. */
  readonly jobName: string;
  /** Model directory on this machine (uploaded by start and deploy). Default "model". */
  readonly modelPath: string;
  /** Filter: "topN(n)", "pickTopN(n)" or "". */
  readonly postProcessing: string;
  /** Records carry the batch dimension. Default false. */
  readonly inputAlreadyBatched: boolean;
  /** Most rows of one run of the model. Default 32. */
  readonly batchSize: number;
  /** Threads of one run; 0 = one per vCPU. Default 0. */
  readonly threadPerModel: number;
  /** How often a running environment looks for a new model, in seconds. Default 30. */
  readonly modelRefreshSeconds: number;
  /** How long a result stays, in seconds. Default 86,400. */
  readonly resultTtlSeconds: number;
  readonly image: ImageConfig;
  readonly import: ImportConfig;
  readonly queue: {
    /** Records of one batch event. Default 10. Above 10 needs windowSeconds >= 1. */
    readonly batchSize: number;
    /** How long SQS gathers a batch, in seconds. Default 0. */
    readonly windowSeconds: number;
    /** Batch functions at the same time, 2 to 1,000. Default 10. */
    readonly maximumConcurrency: number;
    /** Deliveries before a record goes to the dead letters. Default 5. */
    readonly maxReceiveCount: number;
  };
  readonly function: {
    /** Default 1769, which is one vCPU. */
    readonly memoryMB: number;
    /** Of the batch function, 3 to 900; predict stays below API Gateway's 30. Default 30. */
    readonly timeoutSeconds: number;
  };
  readonly http: {
    /** True: POST /predict over tokensPerSecond is answered with 429. Default false. */
    readonly tokenBucketEnabled: boolean;
    /** Of all callers together. Default 100. No effect while tokenBucketEnabled is false. */
    readonly tokensPerSecond: number;
    /** How long a request waits for a token, in ms. Default 100. No effect while tokenBucketEnabled is false. */
    readonly tokenAcquireTimeoutMs: number;
    /** How long POST /predict may take, in ms, at most 29,000. Default: function.timeoutSeconds, at most 29 s. */
    readonly timeoutMs?: number;
    /** Origins whose pages may call from a browser, e.g. "https://example.com"; "*" is every one. Default none. */
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
