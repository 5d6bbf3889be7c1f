/** Compares the files of a model with their checksums, of what was downloaded or while it is. */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, readSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { modelUnavailable } from '../contract/errors.ts';

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

const READ_BYTES = 1024 * 1024;
/** It stays in a processor's cache. */
const BACK_BYTES = 256 * 1024;

type Algorithm = 'sha256' | 'md5';

/**
 * The digest of a file while its parts arrive, so that it costs no time of its own where the network is slower. Bytes that come in
 * their order are taken as they come, and those of the other parts are read back when their turn has come.
 */
export class RunningDigest {
  readonly #fd: number;
  readonly #bytes: number;
  readonly #partBytes: number;
  readonly #whole = new Set<number>();
  #hash: Hash | undefined;
  #at = 0;
  /** Used again: the pages of a new one take as long as what is read into it. */
  #buffer: Buffer | undefined;

  constructor(fd: number, file: ModelFile, partBytes: number) {
    const wanted = digestOf(file);
    this.#fd = fd;
    this.#bytes = file.bytes;
    this.#partBytes = partBytes;
    this.#hash = wanted && createHash(wanted.algorithm);
  }

  /** @param at of the first of them in the file */
  take(at: number, bytes: Uint8Array): void {
    if (at !== this.#at) return;
    this.#hash?.update(bytes);
    this.#at += bytes.length;
  }

  /** Says that the bytes from `at` on are written again. If some were taken already, others may replace them. */
  restart(at: number): void {
    if (at < this.#at) this.#hash = undefined;
  }

  addPart(part: number): void {
    this.#whole.add(part);
    while (this.#hash && this.#at < this.#bytes && this.#whole.has(Math.floor(this.#at / this.#partBytes)))
      this.#readBack();
  }

  ofWhole(): string | undefined {
    return this.#at === this.#bytes ? this.#hash?.digest('hex') : undefined;
  }

  #readBack(): void {
    const rest = this.#partBytes - (this.#at % this.#partBytes);
    const buffer = (this.#buffer ??= Buffer.allocUnsafeSlow(Math.min(BACK_BYTES, this.#bytes)));
    const most = Math.min(buffer.length, rest, this.#bytes - this.#at);
    const read = readSync(this.#fd, buffer, 0, most, this.#at);
    if (read === 0) this.#hash = undefined;
    this.take(this.#at, buffer.subarray(0, read));
  }
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
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES }))
    hash.update(chunk as Buffer);
  return hash.digest('hex');
}
