/**
 * In: a local model directory. Out: the same in S3 as one immutable version, then the pointer that makes it serve.
 * Trap: the pointer goes last; a reader sees the old version or the new one, never half of either.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { HeadObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { findModelFile } from './onnx-file.ts';
import { digestFile, type ModelFile, type ModelLocation, type ModelPointer } from './s3.ts';

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
  const files: ModelFile[] = found.map((file) => ({ ...file, key: prefix + file.path }));
  for (const file of files) await uploadOnce(s3, location.bucket, file, join(directory, file.path));
  const pointer = { version, files: found };
  await s3.send(
    new PutObjectCommand({
      Bucket: location.bucket,
      Key: `${location.prefix}current.json`,
      Body: `${JSON.stringify(pointer, undefined, 2)}\n`,
      ContentType: 'application/json',
    }),
  );
  return { version, files };
}

/** A version's folder is never rewritten: an object of the right size under its content's name is that content. */
async function uploadOnce(s3: S3Client, bucket: string, file: ModelFile, path: string): Promise<void> {
  const there = await s3
    .send(new HeadObjectCommand({ Bucket: bucket, Key: file.key }))
    .catch(() => undefined);
  if (there?.ContentLength === file.bytes) return;
  await s3.send(
    new PutObjectCommand({
      Bucket: bucket,
      Key: file.key,
      Body: createReadStream(path),
      ContentLength: file.bytes,
      ...(file.sha256 ? { ChecksumSHA256: Buffer.from(file.sha256, 'hex').toString('base64') } : {}),
    }),
  );
}

async function filesOf(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}
