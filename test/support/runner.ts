/** Opens the bytes of a model in onnxruntime; it is closed and removed after the test. */
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type OnnxRunner, openOnnx } from '../../lib/compose/onnx.ts';
import type { OnnxSettings } from '../../lib/inference/runner.ts';

export const SETTINGS: OnnxSettings = {
  threads: 1,
  batchSize: 32,
  inputAlreadyBatched: false,
  image: {},
  batching: 'always',
};

/** A test, or anything that runs a callback when its work is over. */
export interface Hooks {
  after(hook: () => Promise<void>): unknown;
}

export async function temporaryFolder(t: Hooks, prefix = 'cs-test-'): Promise<string> {
  // A command in it gets its real path, and TMPDIR may be a link.
  const folder = await realpath(await mkdtemp(join(tmpdir(), prefix)));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function openModelBytes(
  t: Hooks,
  bytes: Uint8Array,
  settings: Partial<OnnxSettings> = {},
): Promise<OnnxRunner> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, bytes);
  const runner = await openOnnx(file, 'test', { ...SETTINGS, ...settings });
  t.after(() => runner.close());
  return runner;
}
