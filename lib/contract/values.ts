/**
 * The types that travel between the stages: a record's inputs, a model's inputs, an outcome. A value is bound to an
 * input only when the model is known, so codecs leave it undecided.
 */
import type { ServingError } from './errors.ts';
import type { DType, Tensor } from './tensor.ts';

/** One input of a record as its codec read it. What it becomes, the model's input decides (see pipeline/bind). */
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
  /** An encoded image (JPEG, PNG), as bytes. */
  | { readonly kind: 'image'; readonly bytes: Uint8Array }
  /**
   * One utf8 cell of the old Arrow wire: the base64 of an image, or strings joined by a vertical bar.
   * The two cannot be told apart without the model: a string input takes strings, any other an image.
   */
  | { readonly kind: 'text'; readonly text: string }
  /** A JSON value: number, boolean, string, or nested arrays of them; a string is a base64 image or text. */
  | { readonly kind: 'json'; readonly value: unknown };

/** Inputs of one record by name, in call order (position matters when names do not match the model's). */
export type Inputs = ReadonlyMap<string, Value>;

/** One input or output of a model; a dynamic dimension is a text, its symbolic name or "". */
export interface TensorSpec {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly (number | string)[];
}

export interface NamedTensor extends Tensor {
  readonly name: string;
}

/** What became of one record: the model's outputs in the model's order, or why there are none. */
export type Outcome =
  | { readonly ok: true; readonly outputs: readonly NamedTensor[] }
  | { readonly ok: false; readonly error: ServingError };

/**
 * What an endpoint asks of a run. A request fails at its first failure whatever the run stage does
 * (lib/pipeline/serve.ts); the other two, and the budget of decoded sizes, are the run stage's to honour.
 */
export interface RunPolicy {
  /**
   * True: the records are the instances of one request, which fails as a whole and has one budget of decoded bytes.
   * `run` may then stop at the first failure and throw it, with its place. Default false.
   */
  readonly failFast?: boolean;
  /**
   * Asked before each decoding and each run: true when there is no time for another. What has not run by then is a
   * `timeout`, which is retryable. Default never.
   */
  readonly isOver?: () => boolean;
  /**
   * True: the records are tensors exactly as the model declares them, by name and with the batch dimension, whatever the
   * job's inputAlreadyBatched says; a run's outputs keep theirs. Default false.
   */
  readonly exactSignature?: boolean;
}

/**
 * The run stage: records' values in, as many outcomes out, in the same order. A record's failure is its outcome and
 * never throws. An ONNX model stands here as binding in front of a `TensorRunner` (lib/compose/onnx.ts); a user's own
 * code implements `run` and needs neither.
 */
export interface Runner {
  /** Identifies the model version that made a result. */
  readonly version: string;
  /** What the model takes and gives, batch dimension included; undefined where it does not say. */
  readonly inputs?: readonly TensorSpec[];
  readonly outputs?: readonly TensorSpec[];
  /** The records' memory is used for others once this has ended. */
  run(records: readonly Inputs[], policy?: RunPolicy): Promise<Outcome[]>;
  /**
   * The same where a crash or an endless run does no harm; dear at the first call. No records: it only gets ready.
   * @throws timeout after `limitMs`, model_failed when the records ended their process
   */
  runIsolated?(records: readonly Inputs[], limitMs: number): Promise<Outcome[]>;
  close(): Promise<void>;
}

/** The model that serves. The runner stays open until `work` is done. @throws model_unavailable */
export interface Model {
  use<T>(work: (runner: Runner) => Promise<T>): Promise<T>;
}

/** A model that takes tensors: `feeds` in the order of `inputs`, the result in the order of `outputs`. */
export interface TensorRunner {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Rows all inputs are fixed to; undefined when the batch dimension is free. */
  readonly fixedRows: number | undefined;
  /** False when records must not share a run: an output does not follow the rows, or rows change each other's answers. */
  readonly separable: boolean;
  run(feeds: readonly Tensor[]): Promise<readonly NamedTensor[]>;
  close(): Promise<void>;
}
