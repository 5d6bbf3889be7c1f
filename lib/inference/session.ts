/**
 * Owns onnxruntime: opens a model file and runs it on plain tensors. `create` and `run` block the JS thread, so
 * parallel calls do not help; larger batches and threads do. Open from a path, never from a buffer, which would
 * resolve external weights against the working directory.
 */

import { env, InferenceSession, Tensor as OrtTensor } from 'onnxruntime-node';
import { DAMAGED, modelUnavailable, ServingError } from '../contract/errors.ts';
import { elementAt, present } from '../contract/present.ts';
import { type DType, isNumericDType, type Tensor, type TypedArray } from '../contract/tensor.ts';
import type { NamedTensor, TensorSpec } from '../contract/values.ts';
import { refuseTelemetry } from '../contract/variables.ts';
import { ALL_REWRITES, AS_WRITTEN, type Optimization, type Runtime } from '../contract/verification.ts';
import { OPTIMIZERS, WRONG_OPTIMIZERS } from './optimizers.ts';
import { hasExactSums, processorFeatures } from './processor.ts';

export interface Session {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** `feeds` in the order of `inputs`; the result in the order of `outputs`. */
  run(feeds: readonly Tensor[]): Promise<readonly NamedTensor[]>;
  close(): Promise<void>;
}

interface SessionOptions {
  /** Threads of one run; see `threadsForMemory`. */
  readonly threads: number;
  /** Undefined for a model that nobody verified: all but wrong rewrites, or none where it does not open with them. */
  readonly optimization?: Optimization | undefined;
  /** Path prefix of a file that `close` writes, with the shapes that each node had. Default: none. */
  readonly profile?: string | undefined;
}

/** The conditions under which a verification made in this process holds. */
export const RUNTIME: Runtime = {
  onnxruntime: env.versions.common,
  architecture: process.arch,
  features: processorFeatures(),
};

/** '1' makes sums of int8 exact. Where they are so anyway, it would take them 5 to 9 times as long. */
const QUANT_PRECISION = hasExactSums(RUNTIME.features ?? []) ? '0' : '1';

// Errors are thrown and logged once; onnxruntime's own log would repeat them.
env.logLevel = 'fatal';
refuseTelemetry();

/** A model of one Identity. */
const SMALLEST = 'CAg6NwoQCgF4EgF5IghJZGVudGl0eRIBZ1oPCgF4EgoKCAgBEgQKAggBYg8KAXkSCgoICAESBAoCCAFCAhAN';
let started: Promise<void> | undefined;

/** Spends the 20 ms that onnxruntime takes for its first session of any model. */
export function startOnnx(): Promise<void> {
  started ??= InferenceSession.create(Buffer.from(SMALLEST, 'base64'), optionsFor(1, ALL_REWRITES)).then(
    (session) => session.release(),
  );
  return started;
}

type RunObserver = (path: string, inputs: readonly TensorSpec[], feeds: readonly Tensor[]) => void;
let observer: RunObserver | undefined;

/** Calls `observe` before each run of this process, and without inputs before each opening: any may end the process. */
export function observeRuns(observe: RunObserver): void {
  observer = observe;
}

/** @throws model_unavailable when onnxruntime refuses the file, with its reason */
export async function openSession(path: string, options: SessionOptions): Promise<Session> {
  observer?.(path, [], []);
  const session = await create(path, options);
  const { inputs, outputs } = await specsOf(session);
  const run = runOf(session);
  return {
    inputs,
    outputs,
    async run(feeds) {
      // No prototype: an input may be called __proto__.
      const named: Record<string, OrtTensor> = Object.create(null);
      for (const [i, spec] of inputs.entries()) named[spec.name] = toOrt(elementAt(feeds, i, 'feeds'));
      observer?.(path, inputs, feeds);
      const results = await run(named);
      const made = outputs.map((spec) =>
        fromOrt(spec.name, present(results[spec.name], `output ${spec.name}`)),
      );
      assertCarried(made, feeds);
      return made;
    },
    async close() {
      if (options.profile !== undefined) session.endProfiling();
      await session.release();
    },
  };
}

/** onnxruntime-node replaces bytes that are not UTF-8 with this, which is also a character. */
const REPLACEMENT = '\ufffd';

/** @throws model_failed when an output has a replacement character that no input brought */
function assertCarried(outputs: readonly NamedTensor[], feeds: readonly Tensor[]): void {
  const hasOne = ({ dtype, data }: Tensor) =>
    dtype === 'string' && data.some((text) => text.includes(REPLACEMENT));
  const output = outputs.find(hasOne);
  if (!output || feeds.some(hasOne)) return;
  throw new ServingError(
    'model_failed',
    `output "${output.name}" holds U+FFFD, which stands for bytes that are not UTF-8 text and cannot be answered`,
  );
}

/** A rewrite may break a valid model ("Invalid model. Node input ... is not a graph input"). */
async function create(path: string, options: SessionOptions): Promise<InferenceSession> {
  const { optimization } = options;
  try {
    return await createAt(path, options, optimization ?? ALL_REWRITES);
  } catch (error) {
    const other = optimization ? undefined : await createAt(path, options, AS_WRITTEN).catch(() => undefined);
    if (other) return other;
    throw modelUnavailable(`onnxruntime cannot load the model: ${reason(error)}${hint(error)}`, {
      cause: error,
    });
  }
}

function createAt(path: string, { threads, profile }: SessionOptions, optimization: Optimization) {
  const options = optionsFor(threads, optimization);
  const profiled = profile === undefined ? {} : { enableProfiling: true, profileFilePrefix: profile };
  return InferenceSession.create(path, { ...options, ...profiled });
}

/**
 * The level "disabled" of onnxruntime is not taken: it leaves out what makes sums of int8 exact. A session without
 * rewrites has each of them off by its name instead.
 */
function optionsFor(threads: number, { level, disabledOptimizers }: Optimization) {
  const isAsWritten = level === 'disabled';
  const off = isAsWritten ? OPTIMIZERS : [...WRONG_OPTIMIZERS, ...disabledOptimizers];
  return {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: isAsWritten ? 'all' : level,
    logSeverityLevel: 4,
    // Spinning worker threads burn the vCPU that the next request needs.
    extra: {
      session: { intra_op: { allow_spinning: '0' }, x64quantprecision: QUANT_PRECISION },
      optimization: { disable_specified_optimizers: off.join(';') },
    },
  } as const satisfies InferenceSession.SessionOptions;
}

type Run = (feeds: Readonly<Record<string, OrtTensor>>) => Promise<Readonly<Record<string, OrtTensor>>>;

interface Handler {
  run(feeds: object, fetches: object, options: object): ReturnType<Run>;
}

/**
 * onnxruntime's `run` copies outputs by name to plain objects, and loses one that is called __proto__. Its handler,
 * which is private, accepts the names unchanged.
 */
function runOf(session: InferenceSession): Run {
  const names = session.outputNames;
  if (!names.includes('__proto__')) return (feeds) => session.run(feeds);
  const handler: Handler = Reflect.get(session, 'handler');
  const fetches: Record<string, null> = Object.create(null);
  for (const name of names) fetches[name] = null;
  return (feeds) => handler.run(feeds, fetches, {});
}

/**
 * @throws model_unavailable for unsupported inputs or outputs, after closing the session, which would keep its
 * weights
 */
async function specsOf(session: InferenceSession) {
  try {
    const inputs = session.inputMetadata.map((meta) => specOf(meta, 'input'));
    const outputs = session.outputMetadata.map((meta) => specOf(meta, 'output'));
    if (inputs.length === 0) throw modelUnavailable('the model has no inputs');
    return { inputs, outputs };
  } catch (error) {
    await session.release();
    throw error;
  }
}

/**
 * Advice for the most common reasons. Kernels exist from opset 7 on, but not for every type of numbers; an operator that
 * last changed before opset 7 does not show which of the two it is.
 */
function hint(error: unknown): string {
  if (/protobuf parsing failed/i.test(reason(error))) return ` (${DAMAGED})`;
  const operator = /Could not find an implementation for \w+\((\d+)\)/.exec(reason(error));
  if (operator && Number(operator[1]) >= 7) {
    return ' (onnxruntime has this operator, but not for the type of its numbers, such as bfloat16: export the model with float32)';
  }
  if (reason(error).includes('AddInitializedOrtValue')) {
    return ' (nodes share int8 weights or a zero point, which onnxruntime cannot make exact on this processor: give each node its own, or export float32)';
  }
  // An error about the file itself starts with "Load model from ... failed:".
  if (reason(error).startsWith('Invalid model')) {
    return ' (a rewrite of onnxruntime broke the model, which need not be invalid: import it again, or simplify it with onnxsim)';
  }
  if (/Type Error: Type 'tensor\((bfloat16|float16|double)\)'/.test(reason(error))) {
    return ' (the operator does not take numbers of this type: export the model with float32)';
  }
  if (/is under development/.test(reason(error)))
    return ' (the opset is newer than this onnxruntime: export the model again with opset 17)';
  if (/Unsupported model IR version/.test(reason(error)))
    return ' (in Python: model = onnx.load(path); model.ir_version = 10; onnx.save(model, path))';
  if (/external (initializer|data)/i.test(reason(error)))
    return ' (a file with weights beside the model is missing or cut off: fetch all of its files again)';
  const also = operator ? '; one that has it already, with float32' : '';
  return operator || /opset/i.test(reason(error))
    ? ` (export the model again with opset 13 or newer${also})`
    : '';
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function specOf(meta: InferenceSession.ValueMetadata, side: string): TensorSpec {
  if (!meta.isTensor) {
    throw modelUnavailable(`${side} "${meta.name}" is not a tensor (sequences and maps are not served)`);
  }
  return { name: meta.name, dtype: dtypeOf(meta.type, meta.name), shape: meta.shape };
}

function dtypeOf(type: string, name: string): DType {
  if (type === 'string' || isNumericDType(type)) return type;
  throw modelUnavailable(`"${name}" is of type ${type}, which is not served`);
}

function toOrt(tensor: Tensor): OrtTensor {
  if (tensor.dtype === 'string') return new OrtTensor('string', tensor.data, tensor.shape);
  if (tensor.dtype === 'float16') {
    const bits = tensor.data;
    const made = new OrtTensor('float16', bits, tensor.shape);
    // On Node 24 the constructor turns the bits into a Float16Array, which onnxruntime-node's native side (1.30) reads
    // as empty ("not enough space: expected 4, got 0"); it wants the Uint16Array back.
    return Object.assign(made, { cpuData: bits });
  }
  return new OrtTensor(tensor.dtype, tensor.data, tensor.shape);
}

function fromOrt(name: string, tensor: OrtTensor): NamedTensor {
  const dtype = dtypeOf(tensor.type, name);
  const { dims: shape, data } = tensor;
  if (dtype === 'string') return { name, dtype, shape, data: data as string[] };
  const numbers = data as TypedArray;
  if (dtype !== 'float16') return { name, dtype, shape, data: numbers };
  return { name, dtype, shape, data: new Uint16Array(numbers.buffer, numbers.byteOffset, numbers.length) };
}
