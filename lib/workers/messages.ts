/**
 * The messages between the service and a worker process, and how they are written; read-message.ts reads them. docs/reference/worker-protocol.md
 * lists them.
 */
import { encodeFrame } from '../codecs/values/frame.ts';
import { ValueWriter } from '../codecs/values/write-value.ts';

export const PROTOCOL = 1;

export const LANGUAGES = ['python', 'typescript'] as const;
export const TRANSFERS = ['obj', 'npy'] as const;
/** The form of an image for the worker: a Pillow image, an array of its pixels, or its bytes. */
export const IMAGE_FORMS = ['pil', 'rgb', 'bytes'] as const;
/** Where a start failed. */
export const PHASES = ['hello', 'load', 'get_env', 'get_preprocess', 'get_postprocess', 'get_model'] as const;
export const KINDS = ['raised', 'length', 'shape'] as const;

export type ImageForm = (typeof IMAGE_FORMS)[number];
export type StartPhase = (typeof PHASES)[number];

export interface Hello {
  readonly type: 'hello';
  readonly protocol: number;
  readonly language: (typeof LANGUAGES)[number];
  /** The version of Python or Node. */
  readonly runtime: string;
  /** The version of the loop's package. */
  readonly version: string;
}

export interface Open {
  readonly type: 'open';
  readonly protocol: number;
  /** A module in `directory` and a class in it: `server.Worker`. */
  readonly worker: string;
  readonly directory: string;
  readonly workerId: number;
  /** -1 is the CPU. */
  readonly deviceId: number;
  readonly transferProto: (typeof TRANSFERS)[number];
  /** The worker gets a folder of its own below it. */
  readonly tmpFolder: string;
  readonly modelDir: string;
  readonly modelName: string;
  readonly batchSize: number;
  readonly gpuMemoryFraction: number;
  readonly verbose: boolean;
  readonly logName: string;
}

export interface Ready {
  readonly type: 'ready';
  /** False: when predict raises, its whole batch fails. */
  readonly retryAlone: boolean;
  readonly imageAs: ImageForm;
}

/** An error of the worker's code: its class and its text. */
export interface WorkerFault {
  readonly type: string;
  readonly message: string;
}

export interface StartFailed {
  readonly type: 'failed';
  readonly phase: StartPhase;
  readonly error: WorkerFault & { readonly traceback: string };
}

export interface Run {
  readonly type: 'run';
  readonly id: number;
  readonly items: readonly unknown[];
}

export type WorkerOutcome = { readonly value: unknown } | { readonly error: WorkerFault };

/** One outcome for each item, in their order. */
export interface RunResult {
  readonly type: 'result';
  readonly id: number;
  readonly outcomes: readonly WorkerOutcome[];
  /** The worker's recorded figures, by name. */
  readonly statistics: Statistics;
}

export type Statistics = Readonly<Record<string, readonly number[]>>;

/** The batch failed as a whole. */
export interface RunFailed {
  readonly type: 'result';
  readonly id: number;
  readonly failed: WorkerFault & { readonly kind: (typeof KINDS)[number] };
  readonly statistics: Statistics;
}

export interface Retire {
  readonly type: 'retire';
}

export interface Retired {
  readonly type: 'retired';
}

export type ToWorker = Open | Run | Retire;
export type FromWorker = Hello | Ready | StartFailed | RunResult | RunFailed | Retired;

export const MESSAGE_LIMITS = {
  /** Limit for the text of one error. */
  faultBytes: 4 * 1024,
  typeBytes: 128,
  tracebackBytes: 64 * 1024,
  /** Limit for all errors of a result together. Once it is used up, the other errors have no text. */
  faultsBytes: 256 * 1024,
} as const;

/**
 * Values that cannot be sent become the error of their outcome.
 * @returns what to write, one chunk after the other
 * @throws TypeError with the path of an item that cannot be sent, RangeError for a message over the limits of a frame
 */
export function encodeMessage(message: ToWorker | FromWorker): Uint8Array[] {
  const writer = new ValueWriter();
  if (message.type === 'run') {
    const items = message.items.map((item, i) => writer.write(item, `items[${i}]`));
    return encodeFrame({ ...message, items }, writer.blocks);
  }
  if (message.type === 'result' && 'outcomes' in message) {
    const faults = new FaultBudget();
    const outcomes = message.outcomes.map((outcome, i) => {
      if ('error' in outcome) return { error: faults.take(outcome.error) };
      try {
        return { value: writer.write(outcome.value, `result[${i}]`) };
      } catch (error) {
        return { error: faults.take(faultOf(error)) };
      }
    });
    return encodeFrame({ ...message, outcomes }, writer.blocks);
  }
  return encodeFrame({ ...message });
}

/** Keeps the errors of a large batch within a header. */
class FaultBudget {
  #left: number = MESSAGE_LIMITS.faultsBytes;

  take(fault: WorkerFault): WorkerFault {
    const type = cut(fault.type, Math.min(MESSAGE_LIMITS.typeBytes, this.#left));
    this.#left -= jsonBytes(type);
    const message = cut(fault.message, Math.min(MESSAGE_LIMITS.faultBytes, this.#left));
    this.#left -= jsonBytes(message);
    return { type, message };
  }
}

/** The error that a worker's code threw, which may be anything, within the limits. */
export function faultOf(error: unknown): WorkerFault {
  const [type, message] =
    error instanceof Error
      ? [error.name || error.constructor.name, error.message]
      : [typeof error, String(error)];
  return { type: cut(type, MESSAGE_LIMITS.typeBytes), message: cut(message, MESSAGE_LIMITS.faultBytes) };
}

/** The beginning of `text`, of at most `bytes` bytes as JSON. */
export function cut(text: string, bytes: number): string {
  let kept = text.slice(0, bytes);
  while (jsonBytes(kept) > bytes) kept = kept.slice(0, Math.floor((kept.length * 7) / 8));
  return kept;
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}
