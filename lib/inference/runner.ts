/**
 * Opens an ONNX model as a runner of tensors, warmed up, and measures whether records can share a run, which the file
 * does not state (`[1,1,M,7]` is ambiguous).
 */
import type { TensorRunner } from '../contract/values.ts';
import type { ImageChoice } from '../pipeline/image-choice.ts';
import { openSession } from './session.ts';
import { fixedBatch, warmUp } from './warm-up.ts';

export interface OnnxSettings {
  readonly threads: number;
  /** Most rows of one run. */
  readonly batchSize: number;
  readonly inputAlreadyBatched: boolean;
  readonly image: ImageChoice;
}

/** @throws model_unavailable with onnxruntime's reason */
export async function openTensorRunner(
  file: string,
  { threads, image }: Pick<OnnxSettings, 'threads' | 'image'>,
): Promise<TensorRunner> {
  const session = await openSession(file, { threads });
  const fixedRows = fixedBatch(session.inputs);
  const separable = await warmUp(session, fixedRows, image);
  return { ...session, fixedRows, separable };
}
