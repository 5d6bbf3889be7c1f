/**
 * The types that travel between the stages: a record's inputs, a model's inputs, an outcome. A value is bound to an
 * input only when the model is known, so codecs leave it undecided.
 */
import type { ServingError } from './errors.ts';
import type { JsonValue } from './json-numbers.ts';
import type { DType, Tensor } from './tensor.ts';
import type { WorkerValue } from './worker-values.ts';

/** One input of a record as its codec read it. The model's input decides what it becomes (see pipeline/bind). */
export type Value =
  /** A dense tensor with its own dtype; strings included. */
  | { readonly kind: 'tensor'; readonly tensor: Tensor }
  /**
   * COO: `indices` is flat row-major of shape `indicesShape`, either nnz x ndim or ndim x nnz (both are met);
   * `values` has nnz elements; `shape` is the dense shape. Indices count from 0.
   */
  | {
      readonly kind: 'sparse';
      readonly shape: readonly number[];
      readonly indices: Int32Array;
      readonly indicesShape: readonly number[];
      readonly values: Tensor;
    }
  /** An encoded image (JPEG, PNG, WebP, BMP, GIF, TIFF), as bytes. */
  | { readonly kind: 'image'; readonly bytes: Uint8Array }
  /**
   * One utf8 cell of the old Arrow wire: the base64 of an image, or strings joined by a vertical bar. Only the model
   * tells which: a string input takes strings, any other an image.
   */
  | { readonly kind: 'text'; readonly text: string }
  /** A JSON value: number, boolean, string, or nested arrays of them; a string is a base64 image or text. */
  | JsonValue
  /** A value from a client of a worker. A model does not accept it. */
  | { readonly kind: 'value'; readonly value: WorkerValue };

/** Inputs of one record by name, in the order of the call. */
export interface Inputs extends ReadonlyMap<string, Value> {
  /** How inputs of which none has a name of the model bind. Default: one input binds, several are refused. */
  readonly binding?: Binding | undefined;
}

/** `name`: a record with other names is refused, as a row of a table; `position`: several inputs bind in their order. */
export type Binding = 'name' | 'position';

/** The axis that counts the rows of a run; `none`: all rows of the run share the tensor. */
export type BatchAxis = number | 'none';

/** One input or output of a model; a dynamic dimension is a text, its symbolic name or "". */
export interface TensorSpec {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly (number | string)[];
  /** Default 0. */
  readonly batchAxis?: BatchAxis;
  /**
   * True for the empty shape of a scalar (rank 0), false for an undeclared rank. onnxruntime reports both as empty, so
   * the verification decides; undefined without one.
   */
  readonly isScalar?: boolean;
  /** One text for each row, which a tokenizer reads; whole numbers of rank 1 are its tokens. Default false. */
  readonly isText?: boolean;
  /** An input of texts that a record may leave out. Default false. */
  readonly optional?: boolean;
}

/** Names of the model's columns and classes. */
export interface ModelNames {
  /** By input: the names of its last axis, in order. */
  readonly columns: Readonly<Record<string, readonly string[]>>;
  /** By output: the names of its last axis, in order. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
}

export type NamedTensor = Tensor & {
  readonly name: string;
  /** The names of the last axis' elements, where the model has them. */
  readonly labels?: readonly string[];
  /** For a model of texts: how many tokens it read, by row. */
  readonly tokens?: readonly number[];
  /** For a model of texts that cut any of them off: how many tokens each of them had before, by row. */
  readonly wholeTokens?: readonly number[];
  /** For a model of texts whose only score becomes a probability: that score, by row. */
  readonly logits?: readonly number[];
};

/** The place of a record in a run of the model: bits of its answer may follow it. */
export interface RunPlace {
  /** The first row of the record, from 0. */
  readonly row: number;
  /** Rows of the run. */
  readonly rows: number;
}

/** The outcome of one record: the model's outputs in its order, a worker's value that is not tensors, or an error. */
export type Outcome =
  | {
      readonly ok: true;
      readonly outputs: readonly NamedTensor[];
      /** The worker's return value if it is not a tensor or a dict of tensors; `outputs` is then empty. */
      readonly value?: WorkerValue;
      /** True: a worker returned its only output as an array, not in a dict. */
      readonly isArray?: true;
      /** The place of the record in its run; undefined for a worker. */
      readonly place?: RunPlace | undefined;
    }
  | { readonly ok: false; readonly error: ServingError };

/**
 * Who waits for an answer. A client that closes its connection and one that only ends its sending look alike at first:
 * such a client is `doubtful` until it is known.
 */
export interface Caller {
  readonly presence: 'waits' | 'doubtful' | 'gone';
  /** Aborted when the caller is gone; created when it is first asked for. */
  readonly signal: AbortSignal;
}

/**
 * The policy of an endpoint for a run. A request always fails at its first failure (lib/pipeline/serve.ts); the run
 * stage implements the rest and the decoded-size budget.
 */
export interface RunPolicy {
  /**
   * True: the records are the instances of one request, which fails as a whole and has one budget of decoded bytes.
   * `run` may then stop at the first failure and throw it, with its place. Default false.
   */
  readonly failFast?: boolean;
  /**
   * Called before each decoding and each run: true when there is no time left. Records that have not run get a
   * `timeout`, which is retryable. Default never.
   */
  readonly isOver?: () => boolean;
  /**
   * Records of a caller who is gone are not run and fail with `cancelled`. Default: nothing is known of the caller, as on
   * Lambda.
   */
  readonly caller?: Caller | undefined;
  /**
   * True: the records are tensors exactly as the model declares them, by name and with the batch dimension,
   * regardless of the job's inputAlreadyBatched; outputs keep theirs. Default false.
   */
  readonly exactSignature?: boolean;
  /** True: records and outputs have no batch dimension, regardless of the job's inputAlreadyBatched. Default false. */
  readonly isRow?: boolean;
  /** The id of the request, as in the log of its function. Asked for only where it is kept. */
  readonly requestId?: (() => string) | undefined;
  /** Called with false when records of the call run after all of them had waited, and with true when the rest waits. */
  readonly onWait?: (waits: boolean) => void;
}

/**
 * The run stage: takes records and returns as many outcomes in the same order. A record's failure is its outcome and
 * never thrown. An ONNX model implements this as binding in front of a `TensorRunner` (lib/compose/onnx.ts); user
 * code implements `run` and needs neither.
 */
export interface Runner {
  /** Identifies the model version that made a result. */
  readonly version: string;
  /** The runtime of a model, by name and version; undefined for a worker. */
  readonly runtime?: string | undefined;
  /** The model's inputs and outputs with the batch dimension; undefined if unknown. */
  readonly inputs?: readonly TensorSpec[];
  readonly outputs?: readonly TensorSpec[];
  /** False: nothing but the declared shapes says where outputs have their rows, and they may be wrong. Default true. */
  readonly hasKnownRows?: boolean;
  /** Names of the model's columns and classes. */
  readonly names?: ModelNames;
  /** The memory of the records is reused once this has ended. */
  run(records: readonly Inputs[], policy?: RunPolicy): Promise<Outcome[]>;
  /**
   * Runs records in isolation from crashes and endless runs; expensive at the first call. Without records it only
   * prepares.
   * @throws timeout after `limitMs`, model_failed when the records ended their process
   */
  runIsolated?(records: readonly Inputs[], limitMs: number): Promise<Outcome[]>;
  close(): Promise<void>;
}

/** The model that serves. The runner stays open until `work` is done. @throws model_unavailable */
export interface Model {
  /** The version that serves, once one does. */
  readonly version?: string | undefined;
  use<T>(work: (runner: Runner) => Promise<T>): Promise<T>;
  /** Undefined while no other version takes a share. */
  readonly canary?: Canary | undefined;
}

/** The share of the records that a version takes. */
export interface CanaryShare {
  readonly version: string;
  /** From 0 to 0.5. */
  readonly share: number;
  /** When it began, ISO 8601. */
  readonly since: string;
}

/** The version that serves, and those on trial beside it. */
export interface ServedVersions {
  readonly version: string;
  readonly canary?: CanaryShare | undefined;
  /** It answers captured requests, and no others. */
  readonly shadow?: Omit<CanaryShare, 'share'> | undefined;
}

/** A version that takes a share of the records beside the one that serves. */
export interface Canary {
  /** @param key that of a request or a record: each of its deliveries is of the same side */
  readonly takes: (key: string) => boolean;
  /** Its runner; the serving one where it is not open. */
  readonly model: Pick<Model, 'version' | 'use'>;
}

/** A model of tensors: takes `feeds` in the order of `inputs` and returns tensors in the order of `outputs`. */
export interface TensorRunner {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** The rows that all inputs are fixed to; undefined when the batch dimension is free. */
  readonly fixedRows: number | undefined;
  /** False when records must not share a run, because their answers are not known to be independent. */
  readonly separable: boolean;
  /** @param isOver asked between runs, where there are several; then it throws `timeout` */
  run(feeds: readonly Tensor[], isOver?: () => boolean): Promise<readonly NamedTensor[]>;
  close(): Promise<void>;
}
