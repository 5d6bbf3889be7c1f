/**
 * Downloads one file of a model in parts, several at a time, and verifies it. An object may change between two reads, so
 * every range names the ETag it belongs to. A part that breaks off, or whose time is over, is continued at the byte that it
 * has reached, by this attempt or by the next.
 */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, constants, createReadStream, openSync, writeSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { asError, modelUnavailable, ServingError } from '../contract/errors.ts';
import { type ReadLimits, readRange, type S3Client } from '../s3/objects.ts';
import type { ByteWriter } from '../s3/signed-read.ts';
import type { Partial } from './partial.ts';

export interface ModelFile {
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

/** S3 serves about 55 MB/s per stream; 8 streams come near the network's limit. */
const PART_BYTES = 8 * 1024 * 1024;
const PARALLEL_PARTS = 8;
/** A read that was ended by its time has to have brought this to be continued. */
const LEAST_BYTES = 4_096;

export interface FileDownload {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly partial: Partial;
  readonly limits: ReadLimits;
  /** Called with the bytes that came. */
  readonly onBytes: (bytes: number) => void;
}

/** The disk takes no more. What is there of the download has to make room. */
class DiskError extends Error {}

/** The object is not the one that the first bytes are of. */
class ChangedError extends Error {}

/** @param place of the file in its version. @throws model_unavailable, the signal's reason, S3's and the disk's errors */
export async function downloadFile(file: ModelFile, place: number, download: FileDownload): Promise<void> {
  const { partial, limits } = download;
  const target = join(partial.folder, file.path);
  await mkdir(dirname(target), { recursive: true });
  let digest: string | undefined;
  try {
    digest = await readParts(file, place, target, download).catch((error: unknown) => {
      // If the version names a file's ETag, a different object is a different version.
      if (file.etag !== undefined || !isChanged(error)) throw error;
      partial.forget(place);
      return readParts(file, place, target, download);
    });
  } catch (error) {
    partial.keeps = limits.signal?.aborted === true || isPassing(error);
    throw error;
  }
  await verify(target, file, digest);
}

/** @returns the digest of the file, when it came in one piece */
async function readParts(
  file: ModelFile,
  place: number,
  target: string,
  { limits, ...download }: FileDownload,
): Promise<string | undefined> {
  const isNew = download.partial.etag(place) === undefined;
  if (isNew) download.partial.forget(place);
  const fd = openSync(target, constants.O_WRONLY | constants.O_CREAT | (isNew ? constants.O_TRUNC : 0));
  // When one part fails, none of the others may go on to write: the descriptor is closed.
  const failed = new AbortController();
  const signal = limits.signal ? AbortSignal.any([limits.signal, failed.signal]) : failed.signal;
  const parts = Math.max(1, Math.ceil(file.bytes / PART_BYTES));
  let next = 0;
  let digest: Hash | undefined;
  const pull = async () => {
    while (next < parts) {
      const part = new Part(file, place, next++, fd, { ...download, limits: { ...limits, signal } });
      digest = await part.read(parts === 1 ? digestOf(file)?.algorithm : undefined);
    }
  };
  try {
    const pulls = Array.from({ length: Math.min(PARALLEL_PARTS, parts) }, pull);
    for (const pulling of pulls) pulling.catch((error: unknown) => failed.abort(error));
    await Promise.allSettled(pulls);
    limits.signal?.throwIfAborted();
    failed.signal.throwIfAborted();
  } finally {
    closeSync(fd);
  }
  return digest?.digest('hex');
}

class Part {
  readonly #file: ModelFile;
  readonly #place: number;
  readonly #part: number;
  readonly #fd: number;
  readonly #download: FileDownload;
  readonly #start: number;
  readonly #end: number;

  constructor(file: ModelFile, place: number, part: number, fd: number, download: FileDownload) {
    this.#file = file;
    this.#place = place;
    this.#part = part;
    this.#fd = fd;
    this.#download = download;
    this.#start = part * PART_BYTES;
    this.#end = Math.min(this.#start + PART_BYTES, file.bytes);
  }

  /** @returns the digest of what was read, when it is the whole part in one piece */
  async read(algorithm: Algorithm | undefined): Promise<Hash | undefined> {
    const { partial } = this.#download;
    for (;;) {
      const start = this.#start + Math.min(partial.bytes(this.#place, this.#part), this.#end - this.#start);
      if (start === this.#end && this.#end > this.#start) return undefined;
      const writer = new FileWriter(this.#fd, start, algorithm);
      try {
        await this.#readFrom(start, writer);
        return start === this.#start ? writer.digest : undefined;
      } catch (error) {
        this.#download.limits.signal?.throwIfAborted();
        if (!isPassing(error) || writer.at - start < LEAST_BYTES) throw error;
      } finally {
        this.#note(writer, true);
      }
    }
  }

  async #readFrom(start: number, writer: FileWriter): Promise<void> {
    const { s3, bucket, partial, limits, onBytes } = this.#download;
    const [file, place] = [this.#file, this.#place];
    const range = { start, end: this.#end, etag: file.etag ?? partial.etag(place) };
    const tee: ByteWriter = {
      restart: (etag) => {
        writer.restart();
        if (etag === undefined) return;
        if (partial.etag(place) === undefined) partial.noteEtag(place, etag);
        // Parts that are asked for together know no ETag yet.
        if (range.etag === undefined && partial.etag(place) !== etag)
          throw new ChangedError(`${file.key} changed`);
      },
      write: (bytes) => {
        writer.write(bytes);
        this.#note(writer);
      },
    };
    try {
      await readRange(s3, { bucket, key: file.key }, range, tee, limits);
    } finally {
      onBytes(writer.at - start);
    }
  }

  #note(writer: FileWriter, isLast = false): void {
    this.#download.partial.note(this.#place, this.#part, writer.at - this.#start, isLast);
  }
}

type Algorithm = 'sha256' | 'md5';

/**
 * Writes what arrives to a file, from `start` on, and into a digest, so that no more than a chunk is in memory. A chunk goes to the
 * system's cache in some microseconds, for which a thread would take longer.
 */
class FileWriter {
  readonly #fd: number;
  readonly #start: number;
  readonly #algorithm: Algorithm | undefined;
  /** Where the next byte goes. */
  at: number;
  digest: Hash | undefined;

  constructor(fd: number, start: number, algorithm: Algorithm | undefined) {
    this.#fd = fd;
    this.#start = start;
    this.#algorithm = algorithm;
    this.at = start;
  }

  restart(): void {
    this.at = this.#start;
    this.digest = this.#algorithm && createHash(this.#algorithm);
  }

  write(bytes: Uint8Array): void {
    try {
      // A full disk writes what it has room for and reports an error only at the next write.
      for (let done = 0; done < bytes.byteLength; )
        done += writeSync(this.#fd, bytes, done, bytes.byteLength - done, this.at + done);
    } catch (cause) {
      throw new DiskError(asError(cause).message, { cause });
    }
    this.at += bytes.byteLength;
    this.digest?.update(bytes);
  }
}

/** True if the same read may succeed later, so the received part of the file is worth keeping. */
function isPassing(error: unknown): boolean {
  if (error instanceof ServingError || error instanceof DiskError) return false;
  const { code, $metadata } = error as { code?: unknown; $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 500;
  return code !== 'ENOSPC' && status >= 500;
}

function isChanged(error: unknown): boolean {
  return error instanceof ChangedError || asError(error).name === 'PreconditionFailed';
}

export function hasDigest(file: ModelFile): boolean {
  return digestOf(file) !== undefined;
}

/** The checksum to compare a file with: the SHA-256 of the pointer, else the MD5 in a single-part ETag. */
function digestOf({ sha256, etag, etagIsDigest }: ModelFile) {
  const md5 = etagIsDigest === false ? undefined : etag?.replaceAll('"', '');
  const [algorithm, expected] = sha256 ? (['sha256', sha256] as const) : (['md5', md5] as const);
  // The ETag of a multipart upload ("...-7") is not a digest of the content, so size and TLS must suffice.
  return !expected || expected.includes('-') ? undefined : { algorithm, expected };
}

/** @param known the digest of what was written to the file, if it is known; otherwise the file is read */
export async function verify(path: string, file: ModelFile, known?: string): Promise<void> {
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
