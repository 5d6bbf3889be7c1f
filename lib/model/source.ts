/**
 * In: a bucket and a job's model prefix. Out: the model's files in a local folder, verified.
 * Trap: an object may change between two reads, so every range names the ETag it belongs to, and the checksum of
 * the whole is compared before the folder gets its final name: a folder that exists is complete.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ServingError } from '../errors.ts';
import { getRange, getText, listFolder, type S3Client } from '../s3/objects.ts';

/** `current.json` of a model prefix: which version serves. Written last by an upload, so that a swap is atomic. */
export interface ModelPointer {
  readonly version: string;
  readonly files: readonly ModelFile[];
}

export interface ModelFile {
  /** Relative to the version's folder; no `..`. */
  readonly path: string;
  readonly bytes: number;
  /** Hex. Absent for an object that was uploaded by hand; its ETag is checked instead. */
  readonly sha256?: string;
  readonly key: string;
  readonly etag?: string;
}

export interface ModelLocation {
  readonly bucket: string;
  /** Ends with `/`. */
  readonly prefix: string;
}

/** S3 serves about 55 MB/s a stream: 8 at a time come near the network's limit. */
const PART_BYTES = 8 * 1024 * 1024;
const PARALLEL_PARTS = 8;

/**
 * The version that serves now: `current.json`, or, where somebody just copied a file, the only *.onnx of the prefix.
 * @throws model_unavailable naming bucket and prefix
 */
export async function readPointer(s3: S3Client, { bucket, prefix }: ModelLocation): Promise<ModelPointer> {
  const where = `s3://${bucket}/${prefix}`;
  try {
    const text = await getText(s3, { bucket, key: `${prefix}current.json` });
    return text === undefined
      ? await pointerFromListing(s3, { bucket, prefix })
      : parsePointer(text, prefix, where);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw new ServingError(
      'model_unavailable',
      `cannot read the model at ${where}: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
}

function parsePointer(text: string, prefix: string, where: string): ModelPointer {
  try {
    const { version, files } = JSON.parse(text) as { version: unknown; files: unknown };
    if (
      typeof version !== 'string' ||
      !/^\w[\w.-]{0,79}$/.test(version) ||
      !Array.isArray(files) ||
      files.length === 0
    )
      throw new Error('shape');
    return {
      version,
      files: files.map(({ path, bytes, sha256 }: { path: unknown; bytes: unknown; sha256: unknown }) => {
        if (typeof path !== 'string' || !/^(?!.*\.\.)[\w][\w./ -]{0,255}$/.test(path))
          throw new Error('path');
        if (!Number.isSafeInteger(bytes) || typeof sha256 !== 'string') throw new Error('bytes, sha256');
        return { path, bytes: bytes as number, sha256, key: `${prefix}versions/${version}/${path}` };
      }),
    };
  } catch (error) {
    throw new ServingError(
      'model_unavailable',
      `${where}current.json is no model pointer: ${(error as Error).message}`,
    );
  }
}

async function pointerFromListing(s3: S3Client, { bucket, prefix }: ModelLocation): Promise<ModelPointer> {
  const objects = await listFolder(s3, bucket, prefix);
  const models = objects.filter(({ key }) => key.endsWith('.onnx'));
  if (models.length !== 1) {
    const found = models.map(({ key }) => key).join(', ') || 'none';
    throw new ServingError(
      'model_unavailable',
      `s3://${bucket}/${prefix}: expected one *.onnx, found ${found}`,
    );
  }
  // External weights travel beside the model under any name, so the whole folder comes along.
  const files = objects.map(({ key, bytes, etag }) => ({ path: key.slice(prefix.length), bytes, key, etag }));
  const names = files.map((file) => file.path + file.etag).join();
  return { version: createHash('sha256').update(names).digest('hex').slice(0, 12), files };
}

/**
 * Downloads every file of the version into `directory/<version>`, unless it is there already.
 * @returns the folder
 * @throws model_unavailable when a file is missing, cut or differs from its checksum
 */
export async function downloadModel(
  s3: S3Client,
  location: ModelLocation,
  pointer: ModelPointer,
  directory: string,
): Promise<string> {
  const folder = join(directory, pointer.version);
  if (await stat(folder).catch(() => undefined)) return folder;
  const partial = `${folder}.partial-${process.pid}-${partials++}`;
  try {
    for (const file of pointer.files) await downloadFile(s3, location.bucket, file, join(partial, file.path));
    await rename(partial, folder).catch(async (error: unknown) => {
      // Somebody else finished the same version first: theirs is as good.
      if (!(await stat(folder).catch(() => undefined))) throw error;
    });
    return folder;
  } catch (error) {
    if (error instanceof ServingError) throw error;
    const where = `s3://${location.bucket}/${location.prefix}`;
    throw new ServingError(
      'model_unavailable',
      `cannot download ${where} version ${pointer.version}: ${(error as Error).message}`,
      { cause: error },
    );
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

let partials = 0;

async function downloadFile(s3: S3Client, bucket: string, file: ModelFile, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const handle = await open(target, 'w');
  try {
    const parts = Math.max(1, Math.ceil(file.bytes / PART_BYTES));
    let next = 0;
    let etag = file.etag;
    const pull = async () => {
      while (next < parts) {
        const start = next++ * PART_BYTES;
        const end = Math.min(start + PART_BYTES, file.bytes);
        const part = await getRange(s3, { bucket, key: file.key }, { start, end, etag });
        etag ??= part.etag;
        await handle.write(part.bytes, 0, part.bytes.byteLength, start);
      }
    };
    await Promise.all(Array.from({ length: Math.min(PARALLEL_PARTS, parts) }, pull));
  } finally {
    await handle.close();
  }
  await verify(target, file);
}

/** By SHA-256 where the pointer has it, else by the MD5 that a single-part ETag is. */
async function verify(path: string, file: ModelFile): Promise<void> {
  const { size } = await stat(path);
  if (size !== file.bytes) {
    throw new ServingError('model_unavailable', `${file.key}: expected ${file.bytes} bytes, got ${size}`);
  }
  const md5 = file.etag?.replaceAll('"', '');
  const [algorithm, expected] = file.sha256 ? (['sha256', file.sha256] as const) : (['md5', md5] as const);
  // The ETag of a multipart upload ("...-7") is no digest of the content; size and TLS must do.
  if (!expected || expected.includes('-')) return;
  const actual = await digestFile(path, algorithm);
  if (actual !== expected) {
    throw new ServingError(
      'model_unavailable',
      `${file.key}: ${algorithm} is ${actual}, expected ${expected}`,
    );
  }
}

export async function digestFile(path: string, algorithm: 'sha256' | 'md5'): Promise<string> {
  const hash = createHash(algorithm);
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer);
  return hash.digest('hex');
}
