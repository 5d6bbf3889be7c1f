/** Opens an ONNX model as a runner of tensors, warmed up, in the way that its verification and the job ask for. */
import type { TensorRunner } from '../contract/values.ts';
import { type BatchingChoice, mayShareRuns, type Verification } from '../contract/verification.ts';
import { batchAxisOf, withOutputAxes } from '../pipeline/batch-axes.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import { openSession, RUNTIME, type Session } from './session.ts';
import { fixedBatch, warmUp } from './warm-up.ts';

export interface OnnxSettings extends BatchingChoice {
  readonly threads: number;
  /** Most rows of one run. */
  readonly batchSize: number;
  readonly inputAlreadyBatched: boolean;
  readonly image: ImageChoice;
  /** What is stored with the model's version. */
  readonly verification?: Verification | undefined;
}

type TensorSettings = Omit<OnnxSettings, 'batchSize' | 'inputAlreadyBatched'>;

/** @throws model_unavailable with onnxruntime's reason */
export async function openTensorRunner(file: string, settings: TensorSettings): Promise<TensorRunner> {
  const { threads, verification } = settings;
  return tensorRunner(await openSession(file, { threads, optimization: verification?.runtime }), settings);
}

/** A session as a runner of tensors, warmed up. */
export async function tensorRunner(
  session: Session,
  settings: Omit<TensorSettings, 'threads'>,
): Promise<TensorRunner> {
  const { image, verification } = settings;
  const fixedRows = fixedBatch(session.inputs);
  await warmUp(session, fixedRows, image);
  const outputs = withOutputAxes(session.outputs, session.inputs, settings);
  const separable =
    mayShareRuns(verification, RUNTIME, settings) && outputs.every((spec) => batchAxisOf(spec) !== 'none');
  return { ...session, outputs, fixedRows, separable };
}
