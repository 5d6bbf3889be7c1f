/** Brings a model that is named by its address in S3 onto this machine for as long as a command needs it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isInS3 } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { copyModel } from '../../lib/registry/source.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';

const MB = 1e6;

/** Calls `work` with a local model directory: this one, or a copy that is removed afterwards. @returns the exit code */
export async function withSource(
  path: string,
  output: Output,
  work: (directory: string) => Promise<number>,
): Promise<number> {
  if (!isInS3(path)) return work(path);
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-copy-'));
  let copied = folder;
  try {
    const code = await interruptible('the copy', output, async (signal) => {
      const progress = showProgress(output.json);
      const onBytes = (done: number, total: number) =>
        progress.update({ label: 'copied', done: done / MB, total: total / MB, unit: 'MB' });
      copied = await copyModel(path, folder, { signal, onBytes }).finally(progress.end);
      return EXIT.ok;
    });
    return code === EXIT.ok ? await work(copied) : code;
  } catch (error) {
    // The copy is gone when the message is read.
    const { code, message } = ServingError.from(error);
    if (code === 'internal' || !message.includes(folder)) throw error;
    throw new ServingError(code, message.replaceAll(copied, path), { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
