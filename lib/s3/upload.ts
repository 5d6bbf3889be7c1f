/**
 * Uploads a file of any size, in parts if it is large, and verifies that S3 has the same bytes. Parts of an
 * incomplete upload stay in S3 and are billed, so every failure aborts the upload. If the process is killed, the
 * bucket's lifecycle rule removes its parts a day later.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  HeadObjectCommand,
  type PutObjectCommand,
  type S3Client as SdkClient,
  type UploadPartCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { asError, badRequest, modelUnavailable, type ServingError } from '../contract/errors.ts';
import { getRange, type ObjectAddress, type S3Client, sdkClient, statusOf } from './objects.ts';

interface LocalFile {
  readonly path: string;
  readonly bytes: number;
  /** Hex. */
  readonly sha256: string;
}

interface UploadOptions {
  /** Aborts the upload. */
  readonly signal?: AbortSignal | undefined;
  /** Called with the size of each part that S3 has stored. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Default 8 MiB, or more if 10,000 parts would not suffice. */
  readonly partBytes?: number | undefined;
}

const READ_BYTES = 256 * 1024;
const PART_BYTES = 8 * 1024 * 1024;
/** S3's limit. */
const MOST_PARTS = 10_000;
/** Parts in memory at once, each complete so that it can be resent. */
const PARALLEL_PARTS = 4;
const TRIES = 4;
const FIRST_PAUSE_MS = 200;
/** The limit of one attempt: this, plus a second per 100 kB. */
const TRY_MS = 15_000;
const BYTES_PER_MS = 100;

/**
 * @throws bad_request when the file does not match its checksum, the signal's reason, model_unavailable when S3 has
 * other bytes afterwards, and errors of S3
 */
export async function uploadFile(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  file: LocalFile,
  { signal, onBytes, partBytes = PART_BYTES }: UploadOptions = {},
): Promise<void> {
  const digests: string[] = [];
  const upload = new Upload({
    client: uploadClient(await sdkClient(s3), new AbortController(), signal, digests),
    params: { Bucket: bucket, Key: key, Body: Readable.from(contentOf(file)), ChecksumAlgorithm: 'SHA256' },
    partSize: Math.max(partBytes, Math.ceil(file.bytes / MOST_PARTS)),
    queueSize: PARALLEL_PARTS,
  });
  let done = 0;
  upload.on('httpUploadProgress', ({ loaded = 0 }) => {
    onBytes?.(loaded - done);
    done = loaded;
  });
  await upload.done();
  await verifyUpload(s3, { bucket, key }, file, digests, signal);
}

/** The file's content. @throws bad_request before the last part is sent, when the file has changed */
async function* contentOf({ path, sha256 }: LocalFile): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES })) {
    hash.update(chunk as Buffer);
    yield chunk as Buffer;
  }
  if (hash.digest('hex') === sha256) return;
  throw badRequest(`${path} has changed while it was uploaded; upload it again`);
}

/**
 * The client for Upload, which has no time limits, continues requests after an abort, and sends the other parts after
 * one has failed. Here each request has a limit, is retried, and ends with `stop` or `signal`.
 * @param digests receives the SHA-256 of each part, which S3 verifies
 */
function uploadClient(
  s3: SdkClient,
  stop: AbortController,
  signal: AbortSignal | undefined,
  digests: string[],
): SdkClient {
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const send = async (command: UploadPartCommand | PutObjectCommand | AbortMultipartUploadCommand) => {
    let bytes = 0;
    if ('Body' in command.input && command.input.Body !== undefined) {
      const { input } = command as UploadPartCommand;
      const body = input.Body as Uint8Array;
      bytes = body.byteLength;
      input.ChecksumSHA256 = createHash('sha256').update(body).digest('base64');
      digests[(input.PartNumber ?? 1) - 1] = input.ChecksumSHA256;
    }
    const isAbort = command instanceof AbortMultipartUploadCommand;
    try {
      return await repeated(isAbort ? undefined : either, bytes, (abortSignal) =>
        s3.send(command as UploadPartCommand, { abortSignal }),
      );
    } catch (error) {
      // Parts that cannot be removed now are removed by the bucket's lifecycle rule.
      if (isAbort) return undefined;
      stop.abort(error);
      throw error;
    }
  };
  return Object.assign(Object.create(s3) as SdkClient, { send });
}

/** The SDK retries errors; a request that hangs is aborted here and retried. */
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

/** S3 refused the request, so retrying does not help. (A wrong checksum may be a flipped bit.) */
function isRefusal(error: unknown): boolean {
  const status = statusOf(error);
  return status >= 400 && status < 500 && ![408, 429].includes(status) && asError(error).name !== 'BadDigest';
}

/** Compares size and checksum with S3's. @param digests SHA-256 of the parts, base64 */
async function verifyUpload(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  file: LocalFile,
  digests: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const { ContentLength = 0, ChecksumSHA256 } = await repeated(signal, 0, (abortSignal) =>
    s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key, ChecksumMode: 'ENABLED' }), { abortSignal }),
  );
  if (ContentLength !== file.bytes) throw differs(`${file.bytes} bytes`, `${ContentLength}`);
  // For several parts S3 has the checksum of their checksums, followed by a dash and their number.
  const parts = digests.map((digest) => Buffer.from(digest, 'base64'));
  const composite = createHash('sha256').update(Buffer.concat(parts)).digest('base64');
  const expected = digests.length === 1 ? digests[0] : composite;
  const stored = ChecksumSHA256?.replace(/-\d+$/, '');
  if (stored === expected) return;
  if (stored !== undefined) throw differs(`SHA-256 ${expected}`, stored);
  // This store has no checksums, so the object is read.
  const hash = createHash('sha256');
  for (let start = 0; start < file.bytes; start += PART_BYTES) {
    signal?.throwIfAborted();
    const end = Math.min(start + PART_BYTES, file.bytes);
    hash.update((await getRange(s3, { bucket, key }, { start, end })).bytes);
  }
  const actual = hash.digest('hex');
  if (actual !== file.sha256) throw differs(`SHA-256 ${file.sha256}`, actual);

  function differs(wanted: string, got: string): ServingError {
    return modelUnavailable(`s3://${bucket}/${key} is not what was uploaded: expected ${wanted}, got ${got}`);
  }
}
