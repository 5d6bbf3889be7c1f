/**
 * The default Runner: an ONNX model. In: a model file and the job's settings. Out: records -> outcomes.
 * Trap: whether outputs follow the batch is not written in the file (`[1,1,M,7]` does not say), so it is measured
 * once at warm-up with one row and with two.
 */
import type { NamedTensor, Runner, TensorSpec } from '../contract/values.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import { infer } from '../pipeline/infer.ts';
import { allocate, elementCount, type Tensor } from '../tensor.ts';
import type { Fence } from './fence.ts';
import { openSession, type Session } from './session.ts';

export interface OnnxSettings {
  readonly threads: number;
  /** Most rows of one run. */
  readonly batchSize: number;
  readonly inputAlreadyBatched: boolean;
  readonly image: ImageChoice;
}

/** Input bytes of one run: ten images of 3x1024x1024 floats, a small part of the memory of one vCPU's function. */
export const RUN_BYTES = 128 * 1024 * 1024;

export interface OnnxRunner extends Runner {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/**
 * Opens the model, warms it up and learns whether its outputs follow the batch.
 * @throws model_unavailable with onnxruntime's reason
 */
export async function openOnnx(file: string, version: string, settings: OnnxSettings): Promise<OnnxRunner> {
  const session = await openSession(file, { threads: settings.threads });
  let closing: Promise<unknown> | undefined;
  let fence: Promise<Fence> | undefined;
  // On demand: hardly any environment needs it, and what starts processes takes 3 ms of a cold start to load.
  const fenced = () =>
    (fence ??= import('./fence.ts').then((module) => new module.Fence({ file, version, settings })));
  const fixedRows = fixedBatch(session.inputs);
  const batch = {
    maxRows: settings.batchSize,
    maxBytes: RUN_BYTES,
    fixedRows,
    separable: await warmUp(session, fixedRows, settings.image),
    inputAlreadyBatched: settings.inputAlreadyBatched,
    image: settings.image,
  };
  return {
    version,
    inputs: session.inputs,
    outputs: session.outputs,
    run: (records, options) => infer(records, session.inputs, batch, (feeds) => session.run(feeds), options),
    fenced: async (records, limitMs) => (await fenced()).run(records, limitMs),
    async close() {
      closing ??= Promise.all([session.close(), fence?.then((opened) => opened.close())]);
      await closing;
    },
  };
}

/** The first dimension all inputs are fixed to, or undefined when one of them leaves it free. */
export function fixedBatch(inputs: readonly TensorSpec[]): number | undefined {
  const first = inputs[0]?.shape[0];
  return typeof first === 'number' && inputs.every((spec) => spec.shape[0] === first) ? first : undefined;
}

/** Runs zeros once or twice. True when records can share a run: every output has as many rows as went in. */
export async function warmUp(
  session: Session,
  fixedRows: number | undefined,
  image: ImageChoice,
): Promise<boolean> {
  const { inputs, outputs } = session;
  const sameBatch = inputs.every(
    (spec) => spec.shape.length > 0 && (fixedRows !== undefined || typeof spec.shape[0] === 'string'),
  );
  // A model that mixes a free batch with a fixed one, or takes a scalar, has no batch to share.
  const declared =
    sameBatch && outputs.every((spec) => fixedRows !== undefined || typeof spec.shape[0] === 'string');
  try {
    const follows = (results: readonly NamedTensor[], rows: number) =>
      results.every((result) => result.shape[0] === rows);
    const one = await session.run(zeros(inputs, fixedRows ?? 1, image));
    if (!sameBatch) return false;
    if (fixedRows !== undefined) return follows(one, fixedRows);
    return follows(one, 1) && follows(await session.run(zeros(inputs, 2, image)), 2);
  } catch {
    // Zeros are not every model's food (a Gather may want other sizes): what the file declares must do.
    return declared;
  }
}

function zeros(inputs: readonly TensorSpec[], rows: number, image: ImageChoice): Tensor[] {
  return inputs.map((spec) => {
    const shape = spec.shape.map((dim, axis) => {
      if (axis === 0) return typeof dim === 'number' ? dim : rows;
      return typeof dim === 'number' ? dim : freeDimension(spec, axis, image);
    });
    const length = elementCount(shape, RUN_BYTES / 8);
    if (spec.dtype === 'string')
      return { dtype: spec.dtype, shape, data: new Array<string>(length).fill('') };
    return { dtype: spec.dtype, shape, data: allocate(spec.dtype, length) };
  });
}

/** A free dimension of an image input takes the configured size, any other 1. */
function freeDimension(spec: TensorSpec, axis: number, image: ImageChoice): number {
  if (spec.shape.length !== 4) return 1;
  const heightAxis = image.layout === 'hwc' ? 1 : 2;
  if (axis === heightAxis) return image.height ?? 1;
  if (axis === heightAxis + 1) return image.width ?? 1;
  return 1;
}
