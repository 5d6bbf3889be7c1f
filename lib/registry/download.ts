/**
 * Finds the version that serves in S3 and downloads it into a local folder. Checksums are compared before the folder gets
 * its final name: an existing folder is complete.
 */

import { createHash } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { asError, modelUnavailable, ServingError } from '../contract/errors.ts';
import { elementAt, isCount } from '../contract/present.ts';
import type { CanaryShare, ServedVersions } from '../contract/values.ts';
import { readVerification, type Unknown, type Verification } from '../contract/verification.ts';
import { getText, listFolder, type ReadLimits, type S3Client } from '../s3/objects.ts';
import { hasDigest, type ModelFile, verify } from './digest.ts';
import { inPartial } from './download-folder.ts';
import { downloadFile, isPassing } from './model-file.ts';
import { someAtATime } from './some-at-a-time.ts';

/** A version of a model that can be downloaded. */
export interface ModelPointer {
  readonly version: string;
  readonly files: readonly ModelFile[];
  /** Undefined for a model that was copied by hand, or pushed by a release that made none. */
  readonly verification?: Verification | undefined;
  /** Memory of a process for the open version, as its import measured it. */
  readonly memoryBytes?: number | undefined;
}

/** `current.json` of a model prefix: which version serves. Written last by an upload, so that a swap is atomic. */
export interface ServingPointer extends ModelPointer, ServedVersions {
  /** Another version, and its share of the records. */
  readonly canary?: (ModelPointer & CanaryShare) | undefined;
}

/** The largest share of a canary: with more of them it would be the version that serves. */
export const MOST_SHARE = 0.5;

/** Options for a download. */
export interface DownloadOptions extends ReadLimits {
  /** Called with the bytes that were read so far, the total, and how many of them have just come. */
  readonly onBytes?: ((done: number, total: number, more: number) => void) | undefined;
  /**
   * True: the part that arrived before a stop or a failure of S3 stays in the directory for the next attempt. Default
   * false.
   */
  readonly keeps?: boolean;
}

export interface ModelLocation {
  readonly bucket: string;
  /** Ends with `/`. */
  readonly prefix: string;
}

// With paths of 256 characters, current.json stays under its read limit of 1 MiB.
/** Files of one model version. Refused with `model_unavailable`. */
export const MAX_MODEL_FILES = 1_000;
/** A version has many small files beside a large one, and each waits for an answer of S3. */
const FILES_AT_ONCE = 8;
/** A name that is valid in S3, in a file system and in a log, and cannot leave its folder. */
const MODEL_PATH = /^(?!.*\.\.)\w[\w./ -]{0,255}$/;
const SHA256 = /^[0-9a-f]{64}$/;
/** Must differ from the folder of a running download, whose content is not verified. */
const VERSION = /^(?!.*\.partial-)\w[\w.-]{0,79}$/;

/** The key of a file of a version. */
export function versionKey({ prefix }: ModelLocation, version: string, path: string): string {
  return `${prefix}versions/${version}/${path}`;
}

export function addressText({ bucket, prefix }: ModelLocation): string {
  return `s3://${bucket}/${prefix}`;
}

/** Returns a ServingError unchanged; an error of S3 becomes model_unavailable. */
export function unreachable(location: ModelLocation, error: unknown, what?: string): ServingError {
  if (error instanceof ServingError) return error;
  const { name, message } = asError(error);
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
 * @throws model_unavailable naming bucket and prefix; the signal's reason
 */
export async function readPointer(
  s3: S3Client,
  location: ModelLocation,
  withoutFiles?: string,
  signal?: AbortSignal,
): Promise<ServingPointer> {
  const { bucket, prefix } = location;
  try {
    const text = await getText(s3, { bucket, key: `${prefix}current.json` }, { signal });
    return text === undefined
      ? await pointerFromListing(s3, { bucket, prefix }, withoutFiles, signal)
      : parsePointer(text, location);
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(location, error, `cannot read the model at ${addressText(location)}`);
  }
}

function parsePointer(text: string, location: ModelLocation): ServingPointer {
  try {
    const { canary, shadow, ...serving }: Unknown<ServingPointer> = JSON.parse(text);
    return {
      ...readVersionOf(serving, location),
      canary: readCanary(canary, location),
      shadow: readShadow(shadow),
    };
  } catch (error) {
    throw modelUnavailable(
      `${addressText(location)}current.json is not a model pointer: ${asError(error).message}`,
    );
  }
}

/** The version that serves does not depend on it: a canary that cannot be read takes no share. */
function readCanary(canary: unknown, location: ModelLocation): ServingPointer['canary'] {
  const { share, since, ...version }: Unknown<NonNullable<ServingPointer['canary']>> = Object(canary);
  if (typeof share !== 'number' || !(share >= 0 && share <= MOST_SHARE) || typeof since !== 'string')
    return undefined;
  try {
    return { ...readVersionOf(version, location), share, since };
  } catch {
    return undefined;
  }
}

function readShadow(shadow: unknown): ServedVersions['shadow'] {
  const { version, since }: Unknown<NonNullable<ServedVersions['shadow']>> = Object(shadow);
  return isVersion(version) && typeof since === 'string' ? { version, since } : undefined;
}

/** @throws Error naming the field that is wrong */
function readVersionOf(
  { version, files, verification, memoryBytes }: Unknown<ModelPointer>,
  location: ModelLocation,
): ModelPointer {
  if (!isVersion(version)) throw new Error('version');
  if (!Array.isArray(files) || files.length === 0 || files.length > MAX_MODEL_FILES)
    throw new Error(`files: expected 1 to ${MAX_MODEL_FILES}`);
  const seen = new Set<string>();
  return {
    version,
    files: files.map(({ path, bytes, sha256 }: { path: unknown; bytes: unknown; sha256: unknown }) => {
      if (typeof path !== 'string' || !isModelPath(path) || seen.has(path)) throw new Error('path');
      seen.add(path);
      if (!isCount(bytes)) throw new Error('bytes');
      // Anything else would not be compared, because an ETag of several parts, `…-7`, is not a digest.
      if (typeof sha256 !== 'string' || !SHA256.test(sha256)) throw new Error('sha256');
      return { path, bytes, sha256, key: versionKey(location, version, path) };
    }),
    verification: readVerification(verification),
    memoryBytes: isCount(memoryBytes) ? memoryBytes : undefined,
  };
}

async function pointerFromListing(
  s3: S3Client,
  { bucket, prefix }: ModelLocation,
  withoutFiles: string | undefined,
  signal: AbortSignal | undefined,
): Promise<ModelPointer> {
  const objects = await listFolder(s3, bucket, prefix, signal);
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
 * Downloads every file of the version to `directory/<version>`, unless it is there completely. What an attempt that was
 * stopped has left of the version is continued.
 * @returns the folder
 * @throws model_unavailable when a file is missing, truncated or differs from its checksum; the signal's reason
 */
export async function downloadModel(
  s3: S3Client,
  location: ModelLocation,
  { version, files }: ModelPointer,
  directory: string,
  { onBytes, keeps = false, ...limits }: DownloadOptions = {},
): Promise<string> {
  const folder = join(directory, version);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  try {
    if (await isWhole(folder, files)) return folder;
    // An incomplete folder, perhaps of a machine that lost power, would block the complete one.
    await rm(folder, { recursive: true, force: true });
    await inPartial(folder, async (partial, isOwn) => {
      // Only a digest would find what another process has not written.
      if (!isOwn) for (const [place, file] of files.entries()) if (!hasDigest(file)) partial.forget(place);
      let done = partial.total;
      const count = (bytes: number) => onBytes?.((done += bytes), total, bytes);
      try {
        await someAtATime(files.length, FILES_AT_ONCE, limits.signal, async (place, signal) => {
          const download = {
            s3,
            bucket: location.bucket,
            partial,
            limits: { ...limits, signal },
            onBytes: count,
          };
          await downloadFile(elementAt(files, place, 'files'), place, download);
        });
      } catch (error) {
        partial.keeps = keeps && (limits.signal?.aborted === true || isPassing(error));
        throw error;
      }
      partial.end();
      await rename(partial.folder, folder).catch(async (error: unknown) => {
        // Another process finished the same version first, which is as good.
        if (!(await isWhole(folder, files))) throw error;
      });
    });
    return folder;
  } catch (error) {
    limits.signal?.throwIfAborted();
    throw unreachable(location, error, `cannot download ${addressText(location)} version ${version}`);
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
