/**
 * Downloads one file of a model in parts, several at a time, and verifies it. An object may change between two reads, so
 * every range names the ETag it belongs to. A part that breaks off, or whose time is over, is continued at the byte that it
 * has reached, by this attempt or by the next.
 */
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { asError, ServingError } from '../contract/errors.ts';
import type { ByteWriter } from '../s3/connection.ts';
import { type ReadLimits, readRange, type S3Client, statusOf } from '../s3/objects.ts';
import { type ModelFile, RunningDigest, verify } from './digest.ts';
import type { Partial } from './partial.ts';
import { someAtATime } from './some-at-a-time.ts';

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
  const { partial } = download;
  const target = join(partial.folder, file.path);
  await mkdir(dirname(target), { recursive: true });
  const digest = await readParts(file, place, target, download).catch((error: unknown) => {
    // If the version names a file's ETag, a different object is a different version.
    if (file.etag !== undefined || !isChanged(error)) throw error;
    partial.forget(place);
    return readParts(file, place, target, download);
  });
  await verify(target, file, digest);
}

/** @returns the digest of the file; undefined where it has to be read for that */
async function readParts(
  file: ModelFile,
  place: number,
  target: string,
  { limits, ...download }: FileDownload,
): Promise<string | undefined> {
  const isNew = download.partial.etag(place) === undefined;
  if (isNew) download.partial.forget(place);
  const fd = openSync(target, constants.O_RDWR | constants.O_CREAT | (isNew ? constants.O_TRUNC : 0));
  const parts = Math.max(1, Math.ceil(file.bytes / PART_BYTES));
  const digest = new RunningDigest(fd, file, PART_BYTES);
  try {
    await someAtATime(parts, PARALLEL_PARTS, limits.signal, async (number, signal) => {
      const output = { fd, digest };
      const part = new Part(file, place, number, output, { ...download, limits: { ...limits, signal } });
      await part.read();
      digest.addPart(number);
    });
    return digest.ofWhole();
  } finally {
    closeSync(fd);
  }
}

interface PartOutput {
  readonly fd: number;
  readonly digest: RunningDigest;
}

class Part {
  readonly #file: ModelFile;
  readonly #place: number;
  readonly #part: number;
  readonly #output: PartOutput;
  readonly #download: FileDownload;
  readonly #start: number;
  readonly #end: number;

  constructor(file: ModelFile, place: number, part: number, output: PartOutput, download: FileDownload) {
    this.#file = file;
    this.#place = place;
    this.#part = part;
    this.#output = output;
    this.#download = download;
    this.#start = part * PART_BYTES;
    this.#end = Math.min(this.#start + PART_BYTES, file.bytes);
  }

  async read(): Promise<void> {
    const { partial } = this.#download;
    for (;;) {
      const start = this.#start + Math.min(partial.bytes(this.#place, this.#part), this.#end - this.#start);
      if (start === this.#end && this.#end > this.#start) return;
      const writer = new FileWriter(this.#output, start);
      try {
        await this.#readFrom(start, writer);
        return;
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

/**
 * Writes what arrives to a file, from `start` on, and into its digest, so that no more than a chunk is in memory. A chunk goes to the
 * system's cache in some microseconds, for which a thread would take longer.
 */
class FileWriter {
  readonly #output: PartOutput;
  readonly #start: number;
  /** Where the next byte goes. */
  at: number;

  constructor(output: PartOutput, start: number) {
    this.#output = output;
    this.#start = start;
    this.at = start;
  }

  restart(): void {
    this.at = this.#start;
    this.#output.digest.restart(this.at);
  }

  write(bytes: Uint8Array): void {
    const { fd, digest } = this.#output;
    try {
      // A full disk writes what it has room for and reports an error only at the next write.
      for (let done = 0; done < bytes.byteLength; )
        done += writeSync(fd, bytes, done, bytes.byteLength - done, this.at + done);
    } catch (cause) {
      throw new DiskError(asError(cause).message, { cause });
    }
    digest.take(this.at, bytes);
    this.at += bytes.byteLength;
  }
}

/** True if the same read may succeed later, so the received part of the file is worth keeping. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ServingError || error instanceof DiskError) return false;
  const status = statusOf(error) || 500;
  return asError(error).code !== 'ENOSPC' && status >= 500;
}

function isChanged(error: unknown): boolean {
  return error instanceof ChangedError || asError(error).name === 'PreconditionFailed';
}
