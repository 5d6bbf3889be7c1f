/** Brings a model that is named by its address in S3 or on the hub of Hugging Face onto this machine for a command. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isInHub, isRemote } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { copyModel } from '../../lib/registry/source.ts';
import { claimFolder } from '../../local/service/data-folder.ts';
import type { HubOrigin } from '../../onnx-import/index.ts';
import type { HubCopyOptions } from '../../release/hub/copy.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';

const MB = 1e6;

/**
 * Calls `work` with a local model directory: this one, a copy of one in S3, which is removed afterwards, or the data
 * folder's copy of one of the hub. @returns the exit code
 */
export async function withSource(
  path: string,
  dataDir: string,
  output: Output,
  work: (directory: string) => Promise<number>,
): Promise<number> {
  if (!isRemote(path)) return work(path);
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-copy-'));
  let copied = folder;
  try {
    const code = await interruptible('the copy', output, async (signal) => {
      const progress = showProgress(output.json);
      const onCommit = ({ commit }: HubOrigin) => output.note(`note: ${path} is commit ${commit}`);
      const onBytes = (done: number, total: number) =>
        progress.update({ label: 'copied', done: done / MB, total: total / MB, unit: 'MB' });
      const copy = isInHub(path) ? copyOfHub : copyModel;
      const place = isInHub(path) ? dataDir : folder;
      copied = await copy(path, place, { signal, onBytes, onCommit }).finally(progress.end);
      return EXIT.ok;
    });
    return code === EXIT.ok ? await work(copied) : code;
  } catch (error) {
    // The copy is gone when the message is read.
    const { code, message } = ServingError.from(error);
    if (code === 'internal' || !message.includes(copied)) throw error;
    throw new ServingError(code, message.replaceAll(copied, path), { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function copyOfHub(address: string, dataDir: string, options: HubCopyOptions): Promise<string> {
  const { copyFromHub } = await import('../../release/hub/copy.ts');
  await claimFolder(dataDir);
  return copyFromHub(address, join(dataDir, 'hub'), options);
}
