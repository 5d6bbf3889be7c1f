/** Models in an archive, as SageMaker has them: model.tar.gz is unpacked into a temporary folder, which the process removes at its end. */
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { unpackTar } from '../files/tar.ts';

export interface Unpacked {
  readonly folder: string;
  readonly notes: readonly string[];
}

/** By path, size and time: an import looks several times. */
const unpacked = new Map<string, Promise<Unpacked>>();
const folders = new Set<string>();

export function isArchive(name: string): boolean {
  // PyTorch names checkpoints model.pth.tar.
  return /(?<!\.(pth|pt|ckpt))\.tar$|\.tgz$|\.tar\.gz$/i.test(name);
}

/** @throws bad_model for an archive that is damaged, too large, or holds anything but files and folders */
export async function unpackModel(path: string): Promise<Unpacked> {
  const { size, mtimeMs } = await stat(path);
  const key = [path, size, mtimeMs].join('\0');
  const known = unpacked.get(key) ?? unpack(path);
  unpacked.set(key, known);
  known.catch(() => unpacked.delete(key));
  return known;
}

async function unpack(path: string): Promise<Unpacked> {
  const folder = await mkdtemp(join(tmpdir(), 'unpacked-model-'));
  if (folders.size === 0) process.once('exit', removeFolders);
  folders.add(folder);
  const files = await unpackTar(path, folder);
  const notes = [`${basename(path)} was unpacked, ${files.length} files`];
  if (existsSync(join(folder, 'code')))
    notes.push(
      'code/ of the archive is not run: what its inference.py does to requests and answers is left to the clients, or to a worker',
    );
  return { folder, notes };
}

function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
