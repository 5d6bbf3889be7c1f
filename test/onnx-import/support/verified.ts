/** Opens a model as a version that was verified, or one of which nothing is known. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { OnnxRunner } from '../../../lib/compose/onnx.ts';
import type { OnnxSettings } from '../../../lib/inference/runner.ts';
import { verifyModel } from '../../../onnx-import/verify/verify.ts';
import { models } from '../../support/models.ts';
import { type Hooks, openModelBytes, temporaryFolder } from '../../support/runner.ts';

export async function openVerified(
  t: Hooks,
  bytes: Uint8Array,
  settings: Partial<OnnxSettings> = {},
): Promise<OnnxRunner> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, bytes);
  const { batchAxes } = settings;
  const verification = await verifyModel(file, { batchAxes, process: models });
  return openModelBytes(t, bytes, { batching: 'proven', ...settings, verification });
}

/** As where somebody copied the file into the bucket. */
export function openCopied(
  t: Hooks,
  bytes: Uint8Array,
  settings: Partial<OnnxSettings> = {},
): Promise<OnnxRunner> {
  return openModelBytes(t, bytes, { batching: 'proven', ...settings });
}
