/** Opens an ONNX model as a runner of tensors, warmed up, in the way that its verification and the job ask for. */
import type { TensorRunner } from '../contract/values.ts';
import { type BatchingChoice, mayShareRuns, type Verification } from '../contract/verification.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import { openSession, RUNTIME } from './session.ts';
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

/** @throws model_unavailable with onnxruntime's reason */
export async function openTensorRunner(
  file: string,
  settings: Omit<OnnxSettings, 'batchSize' | 'inputAlreadyBatched'>,
): Promise<TensorRunner> {
  const { threads, image, verification } = settings;
  const session = await openSession(file, { threads, optimization: verification?.runtime });
  const fixedRows = fixedBatch(session.inputs);
  await warmUp(session, fixedRows, image);
  const separable = mayShareRuns(verification, RUNTIME, settings);
  return { ...session, fixedRows, separable };
}
