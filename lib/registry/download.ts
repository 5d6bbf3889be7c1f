/**
 * Downloads a model from S3 into a local folder and verifies it. An object may change between two reads, so every range
 * names the ETag it belongs to. The checksum is compared before the folder gets its final name: an existing folder is complete.
 */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, createReadStream, openSync, writeSync } from 'node:fs';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { modelUnavailable, ServingError } from '../contract/errors.ts';
import { readVerification, type Unknown, type Verification } from '../contract/verification.ts';
import { getText, listFolder, type ReadLimits, readRange, type S3Client } from '../s3/objects.ts';
import type { ByteWriter } from '../s3/signed-read.ts';
import { inPartial } from './download-folder.ts';

/** `current.json` of a model prefix: which version serves. Written last by an upload, so that a swap is atomic. */
export interface ModelPointer {
  readonly version: string;
  readonly files: readonly ModelFile[];
  /** Undefined for a model that was copied by hand, or pushed by a release that made none. */
  readonly verification?: Verification | undefined;
}

interface ModelFile {
  /** Relative to the version's folder, without `..`. */
  readonly path: string;
  readonly bytes: number;
  /** Hex. Absent for an object that was uploaded by hand, whose ETag is checked instead. */
  readonly sha256?: string;
  readonly key: string;
  readonly etag?: string;
  /** False: the ETag only shows changes. Default: it is an MD5 unless it names parts. */
  readonly etagIsDigest?: boolean;
}

/** Of a download. */
export interface DownloadOptions extends ReadLimits {
  /** Called with the bytes that were read so far and the total. */
  readonly onBytes?: ((done: number, total: number) => void) | undefined;
}

export interface ModelLocation {
  readonly bucket: string;
  /** Ends with `/`. */
  readonly prefix: string;
}

/** S3 serves about 55 MB/s per stream; 8 streams come near the network's limit. */
const PART_BYTES = 8 * 1024 * 1024;
const PARALLEL_PARTS = 8;

// With paths of 256 characters, current.json stays under its read limit of 1 MiB.
/** Files of one model version. Refused with `model_unavailable`. */
export const MAX_MODEL_FILES = 1_000;
/** A name that is valid in S3, in a file system and in a log, and cannot leave its folder. */
const MODEL_PATH = /^(?!.*\.\.)\w[\w./ -]{0,255}$/;
const SHA256 = /^[0-9a-f]{64}$/;
/** Must differ from the folder of a running download, whose content is not verified. */
const VERSION = /^(?!.*\.partial-)\w[\w.-]{0,79}$/;

export function addressText({ bucket, prefix }: ModelLocation): string {
  return `s3://${bucket}/${prefix}`;
}

/** Returns a ServingError unchanged; an error of S3 becomes model_unavailable. */
export function unreachable(location: ModelLocation, error: unknown, what?: string): ServingError {
  if (error instanceof ServingError) return error;
  const { name, message } = error as Error;
  const text = `${what ?? addressText(location)}: ${message || name}`;
  return modelUnavailable(text, { cause: error });
}

export function isModelPath(path: string): boolean {
  return MODEL_PATH.test(path);
}

export function isVersion(version: unknown): version is string {
  return typeof version === 'string' && VERSION.test(version);
}

/**
 * The version that serves now: that of `current.json`, or, if a file was just copied, the only *.onnx of the prefix.
 * @param withoutFiles the version of a worker without files; what was copied for a worker may be any files
 * @throws model_unavailable naming bucket and prefix
 */
export async function readPointer(
  s3: S3Client,
  location: ModelLocation,
  withoutFiles?: string,
): Promise<ModelPointer> {
  const { bucket, prefix } = location;
  try {
    const text = await getText(s3, { bucket, key: `${prefix}current.json` });
    return text === undefined
      ? await pointerFromListing(s3, { bucket, prefix }, withoutFiles)
      : parsePointer(text, location);
  } catch (error) {
    throw unreachable(location, error, `cannot read the model at ${addressText(location)}`);
  }
}

function parsePointer(text: string, location: ModelLocation): ModelPointer {
  const { prefix } = location;
  try {
    const { version, files, verification } = JSON.parse(text) as Unknown<ModelPointer>;
    if (!isVersion(version)) throw new Error('version');
    if (!Array.isArray(files) || files.length === 0 || files.length > MAX_MODEL_FILES)
      throw new Error(`files: expected 1 to ${MAX_MODEL_FILES}`);
    const seen = new Set<string>();
    return {
      version,
      files: files.map(({ path, bytes, sha256 }: { path: unknown; bytes: unknown; sha256: unknown }) => {
        if (typeof path !== 'string' || !isModelPath(path) || seen.has(path)) throw new Error('path');
        seen.add(path);
        if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) throw new Error('bytes');
        // Anything else would not be compared, because an ETag of several parts, `…-7`, is not a digest.
        if (typeof sha256 !== 'string' || !SHA256.test(sha256)) throw new Error('sha256');
        return { path, bytes: bytes as number, sha256, key: `${prefix}versions/${version}/${path}` };
      }),
      verification: readVerification(verification),
    };
  } catch (error) {
    throw modelUnavailable(
      `${addressText(location)}current.json is no model pointer: ${(error as Error).message}`,
    );
  }
}

async function pointerFromListing(
  s3: S3Client,
  { bucket, prefix }: ModelLocation,
  withoutFiles: string | undefined,
): Promise<ModelPointer> {
  const objects = await listFolder(s3, bucket, prefix);
  const models = objects.filter(({ key }) => key.endsWith('.onnx'));
  if (withoutFiles !== undefined && objects.length === 0) return { version: withoutFiles, files: [] };
  if (models.length !== 1 && withoutFiles === undefined) {
    const found = models.map(({ key }) => key).join(', ') || 'none';
    throw modelUnavailable(`s3://${bucket}/${prefix}: expected one *.onnx, found ${found}`);
  }
  // External weights may have any name, so the whole folder is downloaded.
  const files = objects.map(({ key, bytes, etag }) => ({ path: key.slice(prefix.length), bytes, key, etag }));
  const names = files.map((file) => file.path + file.etag).join();
  return { version: createHash('sha256').update(names).digest('hex').slice(0, 12), files };
}

/**
 * Downloads every file of the version to `directory/<version>`, unless it is there completely.
 * @returns the folder
 * @throws model_unavailable when a file is missing, truncated or differs from its checksum
 */
export async function downloadModel(
  s3: S3Client,
  location: ModelLocation,
  pointer: ModelPointer,
  directory: string,
  options: DownloadOptions = {},
): Promise<string> {
  const folder = join(directory, pointer.version);
  const total = pointer.files.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const count = (bytes: number) => options.onBytes?.((done += bytes), total);
  try {
    if (await isWhole(folder, pointer.files)) return folder;
    // An incomplete folder, perhaps of a machine that lost power, would block the complete one.
    await rm(folder, { recursive: true, force: true });
    await inPartial(folder, async (partial) => {
      for (const file of pointer.files)
        await downloadFile(s3, location.bucket, file, join(partial, file.path), { ...options, count });
      await rename(partial, folder).catch(async (error: unknown) => {
        // Another process finished the same version first, which is as good.
        if (!(await isWhole(folder, pointer.files))) throw error;
      });
    });
    return folder;
  } catch (error) {
    options.signal?.throwIfAborted();
    throw unreachable(location, error, `cannot download ${addressText(location)} version ${pointer.version}`);
  }
}

/** Verifying takes a tenth of a second per 100 MB, and only for what another process downloaded. */
async function isWhole(folder: string, files: readonly ModelFile[]): Promise<boolean> {
  try {
    for (const file of files) await verify(join(folder, file.path), file);
    return true;
  } catch {
    return false;
  }
}

async function downloadFile(
  s3: S3Client,
  bucket: string,
  file: ModelFile,
  target: string,
  { count, ...limits }: ReadLimits & { readonly count: (bytes: number) => void },
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const fd = openSync(target, 'w');
  const algorithm = digestOf(file)?.algorithm;
  let digest: Hash | undefined;
  try {
    const parts = Math.max(1, Math.ceil(file.bytes / PART_BYTES));
    let next = 0;
    let etag = file.etag;
    const pull = async () => {
      while (next < parts) {
        const start = next++ * PART_BYTES;
        const end = Math.min(start + PART_BYTES, file.bytes);
        const writer = fileWriter(fd, start, parts === 1 ? algorithm : undefined);
        const given = await readRange(s3, { bucket, key: file.key }, { start, end, etag }, writer, limits);
        etag ??= given;
        count(writer.bytes());
        digest = writer.digest();
      }
    };
    await Promise.all(Array.from({ length: Math.min(PARALLEL_PARTS, parts) }, pull));
  } finally {
    closeSync(fd);
  }
  await verify(target, file, digest?.digest('hex'));
}

interface FileWriter extends ByteWriter {
  /** Written since the last restart. */
  readonly bytes: () => number;
  readonly digest: () => Hash | undefined;
}

/**
 * Writes what arrives to a file, from `start` on, and into a digest, so that no more than a chunk is in memory. A chunk goes to the
 * system's cache in some microseconds, for which a thread would take longer.
 */
function fileWriter(fd: number, start: number, algorithm: Algorithm | undefined): FileWriter {
  let at = start;
  let hash: Hash | undefined;
  return {
    restart() {
      at = start;
      hash = algorithm && createHash(algorithm);
    },
    write(bytes: Uint8Array) {
      // A full disk writes what it has room for and reports an error only at the next write.
      for (let done = 0; done < bytes.byteLength; )
        done += writeSync(fd, bytes, done, bytes.byteLength - done, at + done);
      at += bytes.byteLength;
      hash?.update(bytes);
    },
    bytes: () => at - start,
    digest: () => hash,
  };
}

type Algorithm = 'sha256' | 'md5';

/** What a file is compared with: the SHA-256 of the pointer, else the MD5 in a single-part ETag. */
function digestOf({ sha256, etag, etagIsDigest }: ModelFile) {
  const md5 = etagIsDigest === false ? undefined : etag?.replaceAll('"', '');
  const [algorithm, expected] = sha256 ? (['sha256', sha256] as const) : (['md5', md5] as const);
  // The ETag of a multipart upload ("...-7") is not a digest of the content, so size and TLS must suffice.
  return !expected || expected.includes('-') ? undefined : { algorithm, expected };
}

/** @param known the digest of what was written to the file, where that is at hand; otherwise the file is read */
async function verify(path: string, file: ModelFile, known?: string): Promise<void> {
  const { size } = await stat(path);
  if (size !== file.bytes) {
    throw modelUnavailable(`${file.key}: expected ${file.bytes} bytes, got ${size}`);
  }
  const wanted = digestOf(file);
  if (!wanted) return;
  const { algorithm, expected } = wanted;
  const actual = known ?? (await digestFile(path, algorithm));
  if (actual !== expected) {
    throw modelUnavailable(`${file.key}: ${algorithm} is ${actual}, expected ${expected}`);
  }
}

export async function digestFile(path: string, algorithm: Algorithm): Promise<string> {
  const hash = createHash(algorithm);
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer);
  return hash.digest('hex');
}
