/**
 * Objects of jobs over files (lib/jobs/store.ts): the job's own, and files and results wherever the function may read and write. An
 * answer of S3 that will be the same again is an error of the job with what to do; anything else comes again.
 */
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { PIECE_BYTES, pieceKey } from '../contract/pieces.ts';
import { putTextIf } from './conditional.ts';
import { getRange, type ObjectAddress, type S3Client, sizeOf, statusOf } from './objects.ts';
import { listPages, removeObjects } from './pages.ts';
import { refusalAdvice } from './refusal.ts';

/** 8 MiB at 1 MB/s, and a listing. */
const CALL_MS = 20_000;
/** The list of a job's files. */
const TEXT_BYTES = 64 * 1024 * 1024;

interface StoredFile extends ObjectAddress {
  readonly etag: string;
}

export class JobObjects {
  readonly #s3: S3Client;
  readonly #bucket: string;

  /** @param bucket of the job */
  constructor(s3: S3Client, bucket: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
  }

  async text(key: string): Promise<{ readonly text: string; readonly etag: string | undefined } | undefined> {
    try {
      const { bytes, etag } = await getRange(
        this.#s3,
        { bucket: this.#bucket, key },
        { start: 0, end: TEXT_BYTES },
      );
      return { text: Buffer.from(bytes).toString(), etag };
    } catch (error) {
      const { name } = asError(error);
      if (name === 'NoSuchKey') return undefined;
      // A range of an empty object.
      if (name === 'InvalidRange') return { text: '', etag: undefined };
      throw error;
    }
  }

  async put(key: string, text: string): Promise<void> {
    await this.putObject({ bucket: this.#bucket, key }, Buffer.from(text));
  }

  putNew(key: string, text: string): Promise<boolean> {
    return putTextIf(this.#s3, { bucket: this.#bucket, key }, text, undefined);
  }

  async *pages({ bucket, key }: ObjectAddress, after?: string): ReturnType<typeof listPages> {
    try {
      yield* listPages(this.#s3, bucket, key, after);
    } catch (error) {
      throw refused(error, { bucket, key }, 's3:ListBucket');
    }
  }

  /** Names right below a prefix that others are below. */
  async folders(prefix: string): Promise<string[]> {
    const names: string[] = [];
    for (let token: string | undefined; ; ) {
      const about = { Bucket: this.#bucket, Prefix: prefix, Delimiter: '/' };
      const list = new ListObjectsV2Command({ ...about, ContinuationToken: token });
      const page = await this.#s3.send(list, { abortSignal: AbortSignal.timeout(CALL_MS) });
      for (const { Prefix = '' } of page.CommonPrefixes ?? []) names.push(Prefix.slice(prefix.length, -1));
      token = page.NextContinuationToken;
      if (token === undefined) return names;
    }
  }

  remove(keys: readonly string[]): Promise<void> {
    return removeObjects(this.#s3, this.#bucket, keys);
  }

  /** @param file one whose key ends in a slash is in pieces (`pieceKey`) */
  async read(file: StoredFile, start: number, end: number): Promise<Uint8Array> {
    if (!file.key.endsWith('/')) return this.#readObject(file, start, end);
    const pieces: Uint8Array[] = [];
    for (let at = start; at < end; ) {
      const place = Math.floor(at / PIECE_BYTES);
      const first = place * PIECE_BYTES;
      const to = Math.min(end, first + PIECE_BYTES);
      const piece = { ...file, key: pieceKey(file.key, place) };
      pieces.push(await this.#readObject(piece, at - first, to - first));
      at = to;
    }
    return Buffer.concat(pieces);
  }

  async #readObject({ bucket, key, etag }: StoredFile, start: number, end: number): Promise<Uint8Array> {
    if (start >= end) return new Uint8Array();
    const changed = () =>
      new ServingError('conflict', `s3://${bucket}/${key} was changed or removed while the job ran`);
    try {
      const range = { start, end, ...(etag === '' ? {} : { etag }) };
      const found = await getRange(this.#s3, { bucket, key }, range);
      if (etag !== '' && found.etag !== etag) throw changed();
      if (found.bytes.byteLength !== end - start) throw changed();
      return found.bytes;
    } catch (error) {
      if ([404, 412, 416].includes(statusOf(error))) throw changed();
      throw refused(error, { bucket, key }, 's3:GetObject');
    }
  }

  size(address: ObjectAddress): Promise<number | undefined> {
    return sizeOf(this.#s3, address, CALL_MS);
  }

  async putObject({ bucket, key }: ObjectAddress, body: Uint8Array): Promise<void> {
    const type = key.endsWith('.json') ? 'application/json' : 'application/x-ndjson';
    const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: type });
    await this.#writing({ bucket, key }, () =>
      this.#s3.send(put, { abortSignal: AbortSignal.timeout(CALL_MS) }),
    );
  }

  async begin({ bucket, key }: ObjectAddress): Promise<string> {
    const create = new CreateMultipartUploadCommand({
      Bucket: bucket,
      Key: key,
      ContentType: 'application/x-ndjson',
    });
    const { UploadId } = await this.#writing({ bucket, key }, () =>
      this.#s3.send(create, { abortSignal: AbortSignal.timeout(CALL_MS) }),
    );
    if (UploadId === undefined) throw new Error(`S3 gave the upload of ${key} no id`);
    return UploadId;
  }

  /** @returns its ETag; undefined when there is no such upload any more */
  async putPart(
    { bucket, key }: ObjectAddress,
    upload: string,
    number: number,
    body: Uint8Array,
  ): Promise<string | undefined> {
    const about = { Bucket: bucket, Key: key, UploadId: upload };
    const put = new UploadPartCommand({ ...about, PartNumber: number, Body: body });
    const part = await whileOpen(() => this.#s3.send(put, { abortSignal: AbortSignal.timeout(CALL_MS) }));
    return part?.ETag;
  }

  /** @param etags of all parts in order. @returns false when there is no such upload any more */
  async complete({ bucket, key }: ObjectAddress, upload: string, etags: readonly string[]): Promise<boolean> {
    const about = { Bucket: bucket, Key: key, UploadId: upload };
    const Parts = etags.map((ETag, i) => ({ PartNumber: i + 1, ETag }));
    const command = new CompleteMultipartUploadCommand({ ...about, MultipartUpload: { Parts } });
    const done = await whileOpen(() => this.#s3.send(command, { abortSignal: AbortSignal.timeout(CALL_MS) }));
    return done !== undefined;
  }

  async #writing<T>(address: ObjectAddress, write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      throw refused(error, address, 's3:PutObject');
    }
  }
}

/** Undefined when the upload is gone. */
async function whileOpen<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (asError(error).name === 'NoSuchUpload') return undefined;
    throw error;
  }
}

/** An answer that will be the same again, as an error of the job. */
function refused(error: unknown, { bucket, key }: ObjectAddress, needs: string): unknown {
  const status = statusOf(error);
  if (status < 300 || status >= 500 || status === 408 || status === 429) return error;
  const text = `s3://${bucket}/${key}`;
  const advice =
    refusalAdvice(error, { bucket, text, namedBy: 'the address', needs }) ?? asError(error).message;
  const hint = status === 403 ? '; a deployment reaches the buckets of jobs.buckets in config.yaml only' : '';
  return badRequest(`${text}: ${advice}${hint}`);
}
