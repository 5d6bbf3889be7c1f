/**
 * The base class of workers in TypeScript. It is part of the SDK, and the process that loads a worker has a copy of its
 * own, so what they share is found by names and symbols, never by `instanceof`.
 */
import { isTensorLike } from '../codecs/values/tensor-like.ts';
import { allocate, type Tensor } from '../contract/tensor.ts';
import type { WorkerValue } from '../contract/worker-values.ts';
import { localTime } from './local-time.ts';

export interface WorkerLogger {
  debug(message: string): void;
  info(message: string): void;
  warning(message: string): void;
  error(message: string): void;
}

/** Converts an item for `predict`, or a result on its way back. */
export type BatchFunction = (batch: unknown) => unknown;

/** Between two batches. */
const MAX_SAMPLES = 4_096;
const SAMPLES = Symbol.for('cluster-serving.samples');

/**
 * A model and the code around it, in a process of its own. Subclasses implement `getModel` and `predict`. Every method
 * but the last two may be async. The properties are set before `getEnv` is called.
 */
export abstract class WKRHardWorker<Envs = unknown, Model = unknown> {
  workerId = 0;
  /** -1 is the CPU. */
  deviceId = -1;
  transferProto: 'obj' | 'npy' = 'obj';
  tmpFolder = '';
  modelDir = '';
  modelName = '';
  batchSize = 1;
  gpuMemoryFraction = 0.2;
  verbose = false;
  logName = 'WKRServer';

  /** False: when predict throws, its whole batch fails. Otherwise each item runs once more, alone. */
  retryAlone = true;
  /** The form of an image for `predict`: a uint8 tensor, height x width x 3, or its bytes. */
  imageAs: 'rgb' | 'bytes' = 'rgb';

  [SAMPLES]: [string, number][] | undefined;

  /** Prepares what the other methods get. @returns nothing, unless it is overridden */
  getEnv(_deviceId: number, _tmpDir: string): Envs | Promise<Envs> {
    // A worker that needs no environment declares none.
    return undefined as Envs;
  }

  /** @returns a function from what `batching` made to the input of `predict`; it may be async */
  getPreprocess(_envs: Envs): BatchFunction | Promise<BatchFunction> {
    return (batch) => batch;
  }

  /** @returns a function from the result of `predict` to the answers, one for each item; it may be async */
  getPostprocess(_envs: Envs): BatchFunction | Promise<BatchFunction> {
    return (result) => result;
  }

  /** Loads the model. */
  abstract getModel(envs: Envs, modelDir: string, modelName: string, tmpDir: string): Model | Promise<Model>;

  /** Makes one input of the items: their list, or for the protocol npy one tensor with a new first axis. */
  batching(items: readonly WorkerValue[]): unknown {
    return this.transferProto === 'npy' ? stack(items) : items;
  }

  /** @returns a list or a tensor with one answer for each item; an Error fails its item */
  abstract predict(model: Model, input: unknown): unknown;

  /** Is called once, when the process retires. */
  offModel(_model: Model): void | Promise<void> {}

  /** A logger that writes to the log of the service. */
  newLogger(): WorkerLogger {
    const write = (stream: NodeJS.WriteStream, level: string) => (message: string) => {
      stream.write(`${localTime(new Date())} ${level} ${this.logName} worker ${this.workerId}: ${message}\n`);
    };
    return {
      debug: this.verbose ? write(process.stdout, 'DEBUG') : () => undefined,
      info: write(process.stdout, 'INFO'),
      warning: write(process.stdout, 'WARNING'),
      error: write(process.stderr, 'ERROR'),
    };
  }

  /** Records one sample for each name: `{ batchsize: 4 }`. A value that is not a number is omitted, with a warning. */
  recordStatistic(statistic: Readonly<Record<string, number>>): void {
    const samples = (this[SAMPLES] ??= []);
    for (const [name, value] of Object.entries(statistic)) {
      if (Number.isFinite(value)) samples.push([name, value]);
      else this.newLogger().warning(`recordStatistic: ${name} is not a number`);
    }
    samples.splice(0, samples.length - MAX_SAMPLES);
  }
}

/** The worker's records since the last call. */
export function takeSamples(worker: WKRHardWorker): [string, number][] {
  const samples = worker[SAMPLES] ?? [];
  worker[SAMPLES] = undefined;
  return samples;
}

/** @throws TypeError for anything but tensors, and for tensors that differ in dtype or shape */
export function stack(items: readonly WorkerValue[]): Tensor {
  const tensors = items.map((item) => {
    if (!isTensorLike(item)) throw new TypeError('an item is not a tensor');
    return item;
  });
  const [first] = tensors;
  if (!first) throw new RangeError('a batch needs an item');
  const { dtype } = first;
  if (tensors.some((other) => other.dtype !== dtype || String(other.shape) !== String(first.shape))) {
    throw new TypeError('the items differ in dtype or shape');
  }
  const shape = [tensors.length, ...first.shape];
  if (dtype === 'string')
    return { dtype, shape, data: tensors.flatMap(({ data }) => Array.from(data, String)) };
  const data = allocate(dtype, tensors.length * first.data.length);
  const bytes = new Uint8Array(data.buffer);
  for (const [i, { data: row }] of tensors.entries()) {
    if (ArrayBuffer.isView(row)) {
      bytes.set(new Uint8Array(row.buffer, row.byteOffset, row.byteLength), i * row.byteLength);
    }
  }
  return { dtype, shape, data };
}
