/** Opens an ONNX model as a runner of tensors, warmed up, in the way that its verification and the job ask for. */
import type { TensorRunner, TensorSpec } from '../contract/values.ts';
import {
  type BatchAxes,
  type BatchingChoice,
  mayShareRuns,
  optimizationFor,
  type Verification,
} from '../contract/verification.ts';
import { batchAxisOf, withInputAxes, withOutputAxes, withRanks } from '../pipeline/batch/batch-axes.ts';
import type { ImageChoice } from '../pipeline/bind/image-choice.ts';
import { openSession, RUNTIME, type Session } from './session.ts';
import { fixedBatch, warmUp } from './warm-up.ts';

export interface OnnxSettings extends BatchingChoice {
  readonly threads: number;
  /** Most rows of one run. */
  readonly batchSize: number;
  readonly inputAlreadyBatched: boolean;
  readonly image: ImageChoice;
  /** The batch axes of outputs. Default: as the verification or the declared shapes have them. */
  readonly outputAxes?: BatchAxes | undefined;
  /** True: runs have as many rows as there are, up to `batchSize`. Default: as many as take the least time for a row. */
  readonly hasSteadyRuns?: boolean;
  /** The data stored with the model's version. */
  readonly verification?: Verification | undefined;
}

type TensorSettings = Omit<OnnxSettings, 'batchSize' | 'inputAlreadyBatched' | 'hasSteadyRuns'>;

/** @throws model_unavailable with onnxruntime's reason, or when the batch axes do not fit the model */
export async function openTensorRunner(file: string, settings: TensorSettings): Promise<TensorRunner> {
  const { threads, verification } = settings;
  const session = await openSession(file, { threads, optimization: optimizationFor(verification, RUNTIME) });
  try {
    return await tensorRunner(session, settings);
  } catch (error) {
    await session.close();
    throw error;
  }
}

/** A session as a runner of tensors, warmed up. @throws model_unavailable when the batch axes do not fit the model */
export async function tensorRunner(
  session: Session,
  settings: Omit<TensorSettings, 'threads'>,
): Promise<TensorRunner> {
  const { image, verification, batchAxes } = settings;
  const ranked = (specs: readonly TensorSpec[]) => withRanks(specs, verification?.scalars);
  const inputs = withInputAxes(ranked(session.inputs), batchAxes);
  const outputs = withOutputAxes(ranked(session.outputs), inputs, settings);
  const fixedRows = fixedBatch(inputs);
  await warmUp({ ...session, inputs }, fixedRows, image);
  const separable =
    mayShareRuns(verification, RUNTIME, settings) && outputs.every((spec) => batchAxisOf(spec) !== 'none');
  return { ...session, inputs, outputs, fixedRows, separable };
}
