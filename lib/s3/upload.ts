/**
 * In: a file of any size and its SHA-256. Out: the same bytes in S3, and the certainty that they are.
 * Trap: a large file goes in parts, and parts that were never put together stay and are billed: whatever goes wrong,
 * the upload is called off. (A killed process cannot; the bucket's lifecycle does it a day later.)
 */
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { ServingError } from '../contract/errors.ts';
import { getRange, type ObjectAddress, type S3Client } from './objects.ts';

export interface LocalFile {
  readonly path: string;
  readonly bytes: number;
  /** Hex. */
  readonly sha256: string;
}

export interface UploadOptions {
  /** Ends the upload, and what of it is in S3. */
  readonly signal?: AbortSignal | undefined;
  /** Hears of bytes that S3 has taken. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Default 8 MiB, and more where 10,000 parts would not do. */
  readonly partBytes?: number | undefined;
}

const PART_BYTES = 8 * 1024 * 1024;
/** S3's limit. */
const MOST_PARTS = 10_000;
/** Held in memory at once, each whole, so that it can be sent again. */
const PARALLEL_PARTS = 4;
const TRIES = 4;
const FIRST_PAUSE_MS = 200;
/** For one try: this, and a second for every 100 kB. */
const TRY_MS = 15_000;
const BYTES_PER_MS = 100;

/**
 * @throws bad_request when the file is not what its checksum says, the signal's reason, model_unavailable when S3 holds
 * something else afterwards, and what S3 says
 */
export async function uploadFile(
  s3: S3Client,
  address: ObjectAddress,
  file: LocalFile,
  options: UploadOptions = {},
): Promise<void> {
  const least = options.partBytes ?? PART_BYTES;
  const partBytes = Math.max(least, Math.ceil(file.bytes / MOST_PARTS));
  const handle = await open(file.path);
  try {
    const digest =
      file.bytes <= partBytes
        ? await putWhole(s3, address, file, handle, options)
        : await putParts(s3, address, file, handle, partBytes, options);
    await verifyUpload(s3, address, file, digest, options.signal);
  } finally {
    await handle.close();
  }
}

async function putWhole(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  file: LocalFile,
  handle: FileHandle,
  { signal, onBytes }: UploadOptions,
): Promise<string> {
  const body = await readPart(handle, 0, file.bytes);
  assertSame(file, createHash('sha256').update(body).digest('hex'));
  const checksum = Buffer.from(file.sha256, 'hex').toString('base64');
  await repeated(signal, body.length, async (abortSignal) => {
    const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ChecksumSHA256: checksum });
    await s3.send(put, { abortSignal });
  });
  onBytes?.(file.bytes);
  return checksum;
}

async function putParts(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  file: LocalFile,
  handle: FileHandle,
  partBytes: number,
  { signal, onBytes }: UploadOptions,
): Promise<string> {
  const upload = { Bucket: bucket, Key: key };
  const { UploadId } = await s3.send(
    new CreateMultipartUploadCommand({ ...upload, ChecksumAlgorithm: 'SHA256' }),
    { abortSignal: AbortSignal.timeout(TRY_MS) },
  );
  const stop = new AbortController();
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const flying = new Set<Promise<void>>();
  try {
    const whole = createHash('sha256');
    const parts: (CompletedPart & { ChecksumSHA256: string })[] = [];
    const send = async (body: Buffer, i: number) => {
      const ChecksumSHA256 = createHash('sha256').update(body).digest('base64');
      const part = { ...upload, UploadId, PartNumber: i + 1, Body: body, ChecksumSHA256 };
      const etag = await repeated(either, body.length, async (abortSignal) => {
        return (await s3.send(new UploadPartCommand(part), { abortSignal })).ETag;
      });
      parts[i] = { PartNumber: i + 1, ETag: etag, ChecksumSHA256 };
      onBytes?.(body.length);
    };
    for (let i = 0; i * partBytes < file.bytes; i++) {
      while (flying.size >= PARALLEL_PARTS) await Promise.race(flying);
      either.throwIfAborted();
      const start = i * partBytes;
      const body = await readPart(handle, start, Math.min(partBytes, file.bytes - start));
      whole.update(body);
      const sending = send(body, i).finally(() => flying.delete(sending));
      // Told to whoever waits for it next.
      sending.catch(() => undefined);
      flying.add(sending);
    }
    await Promise.all(flying);
    assertSame(file, whole.digest('hex'));
    await s3.send(
      new CompleteMultipartUploadCommand({ ...upload, UploadId, MultipartUpload: { Parts: parts } }),
      { abortSignal: AbortSignal.timeout(TRY_MS) },
    );
    return digestOfParts(parts.map(({ ChecksumSHA256 }) => ChecksumSHA256));
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled(flying);
    await callOff(s3, { ...upload, UploadId });
    throw error;
  }
}

/** What S3 calls the checksum of an object of many parts: that of the parts' checksums, without their count. */
function digestOfParts(checksums: readonly string[]): string {
  const hash = createHash('sha256');
  for (const checksum of checksums) hash.update(Buffer.from(checksum, 'base64'));
  return hash.digest('base64');
}

/** What cannot be called off now, the bucket's lifecycle will. */
async function callOff(s3: S3Client, upload: { Bucket: string; Key: string; UploadId: string | undefined }) {
  const abort = new AbortMultipartUploadCommand(upload);
  await s3.send(abort, { abortSignal: AbortSignal.timeout(TRY_MS) }).catch(() => undefined);
}

async function readPart(handle: FileHandle, start: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  let read = 0;
  while (read < bytes) {
    const { bytesRead } = await handle.read(buffer, read, bytes - read, start + read);
    if (bytesRead === 0) break;
    read += bytesRead;
  }
  return buffer.subarray(0, read);
}

function assertSame({ path, sha256 }: LocalFile, actual: string): void {
  if (actual === sha256) return;
  throw new ServingError('bad_request', `${path} has changed while it was uploaded; upload it again`);
}

/** The SDK repeats what fails at once; what hangs is broken off here and tried again. */
async function repeated<T>(
  signal: AbortSignal | undefined,
  bytes: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted();
    const timeout = AbortSignal.timeout(TRY_MS + Math.ceil(bytes / BYTES_PER_MS));
    try {
      return await work(signal ? AbortSignal.any([signal, timeout]) : timeout);
    } catch (error) {
      signal?.throwIfAborted();
      if (attempt === TRIES || isRefusal(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, FIRST_PAUSE_MS * 2 ** attempt));
    }
  }
}

/** S3 understood and said no: asking again changes nothing. (A bad checksum may be a bit that fell over.) */
function isRefusal(error: unknown): boolean {
  const { name, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  return status >= 400 && status < 500 && ![408, 429].includes(status) && name !== 'BadDigest';
}

/**
 * Size and checksum as S3 has them now.
 * @param digest base64, as S3 reckons it
 */
async function verifyUpload(
  s3: S3Client,
  address: ObjectAddress,
  file: LocalFile,
  digest: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { bucket, key } = address;
  const head = await repeated(signal, 0, (abortSignal) =>
    s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key, ChecksumMode: 'ENABLED' }), { abortSignal }),
  );
  const { ContentLength = 0, ChecksumSHA256 } = head;
  if (ContentLength !== file.bytes) {
    throw differs(address, `${file.bytes} bytes`, `${ContentLength}`);
  }
  const stored = ChecksumSHA256?.replace(/-\d+$/, '');
  if (stored === digest) return;
  if (stored !== undefined) throw differs(address, `SHA-256 ${digest}`, stored);
  // A store that keeps no checksums: read what it holds.
  const actual = await digestObject(s3, address, file.bytes, signal);
  if (actual !== file.sha256) throw differs(address, `SHA-256 ${file.sha256}`, actual);
}

async function digestObject(
  s3: S3Client,
  address: ObjectAddress,
  bytes: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  const hash = createHash('sha256');
  for (let start = 0; start < bytes; start += PART_BYTES) {
    signal?.throwIfAborted();
    const part = await getRange(s3, address, { start, end: Math.min(start + PART_BYTES, bytes) });
    hash.update(part.bytes);
  }
  return hash.digest('hex');
}

function differs({ bucket, key }: ObjectAddress, expected: string, got: string): ServingError {
  return new ServingError(
    'model_unavailable',
    `s3://${bucket}/${key} is not what was uploaded: expected ${expected}, got ${got}`,
  );
}
