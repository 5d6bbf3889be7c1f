/**
 * In: a local model directory. Out: the same in S3 as one immutable version, then the pointer that makes it serve.
 * Trap: the pointer goes last; a reader sees the old version or the new one, never half of either.
 */
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { putFile, putText, type S3Client, sizeOf } from '../s3/objects.ts';
import { findModelFile } from './onnx-file.ts';
import { digestFile, type ModelLocation, type ModelPointer } from './source.ts';

/**
 * Uploads `directory` (one *.onnx and what lies beside it) and makes it the serving version.
 * The version is the start of the SHA-256 over names and contents: the same files are the same version.
 * @throws model_unavailable when the directory holds no model, or two
 */
export async function publishModel(
  s3: S3Client,
  location: ModelLocation,
  directory: string,
): Promise<ModelPointer> {
  await findModelFile(directory);
  const paths = await filesOf(directory);
  const found = await Promise.all(
    paths.map(async (path) => {
      const file = join(directory, path);
      return { path, bytes: (await stat(file)).size, sha256: await digestFile(file, 'sha256') };
    }),
  );
  const version = createHash('sha256').update(JSON.stringify(found)).digest('hex').slice(0, 12);
  const prefix = `${location.prefix}versions/${version}/`;
  const files = found.map((file) => ({ ...file, key: prefix + file.path }));
  for (const { path, key, bytes, sha256 } of files) {
    const address = { bucket: location.bucket, key };
    // A version's folder is never rewritten: an object of the right size under its content's name is that content.
    if ((await sizeOf(s3, address)) === bytes) continue;
    await putFile(s3, address, { path: join(directory, path), bytes, sha256 });
  }
  const pointer = `${JSON.stringify({ version, files: found }, undefined, 2)}\n`;
  await putText(s3, { bucket: location.bucket, key: `${location.prefix}current.json` }, pointer);
  return { version, files };
}

/** A passport tells of the import and has its time in it: the same model would be another version each time. */
const PASSPORT = /^passport\.(json|md)$/;

async function filesOf(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.') && !PASSPORT.test(entry.name))
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}
