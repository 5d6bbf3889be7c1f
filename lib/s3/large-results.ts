/**
 * Stores results that are too large for Redis, each as two objects: the exact values, which a client that reads Redis
 * decodes, and the JSON that HTTPS answers with. Every key is new, so that neither a redelivery nor another uri has it; the
 * bucket's lifecycle removes them after their pointers have expired.
 */
import { createHash, randomUUID } from 'node:crypto';
import { asError, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { largeResultPrefix } from '../contract/names.ts';
import type { LargePointer, ObjectDigest } from '../contract/result.ts';
import { allEnded } from '../contract/under-way.ts';
import { getRange, putBytes, type ReadLimits, type S3Client } from './objects.ts';

/** For an object of 256 MiB at 9 MB/s. */
const TRANSFER_MS = 30_000;

interface Content {
  readonly form: LargePointer['form'];
  readonly bytes: Uint8Array;
}

export class LargeResults {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #job: string;
  readonly #now: () => number;

  constructor(s3: S3Client, { bucket, job, now }: { bucket: string; job: string; now: () => number }) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#job = job;
    this.#now = now;
  }

  /** @throws too_large; results_unavailable */
  async put(
    { form, bytes }: Content,
    jsonAt: (finishedAt: number) => Iterable<string>,
  ): Promise<LargePointer> {
    const finishedAt = this.#now();
    const json = joined(jsonAt(finishedAt));
    const [bucket, key] = [this.#bucket, largeResultPrefix(this.#job) + randomUUID()];
    const abortSignal = AbortSignal.timeout(TRANSFER_MS);
    const put = (name: string, body: Uint8Array, type: string) =>
      putBytes(this.#s3, { bucket, key: name }, body, { type, abortSignal });
    try {
      await allEnded([
        put(key, bytes, 'application/octet-stream'),
        put(`${key}.json`, json, 'application/json; charset=utf-8'),
      ]);
    } catch (error) {
      throw unavailable('stored', error);
    }
    return { bucket, key, form, ...digestOf(bytes), json: digestOf(json), finishedAt };
  }
}

/** The exact values. @throws results_unavailable, also when the object is not the one that was stored */
export async function readLarge(
  s3: S3Client,
  { bucket, key, bytes, sha256 }: LargePointer,
  limits: ReadLimits,
): Promise<Uint8Array> {
  if (bytes > LIMITS.largeResultBytes) throw overLimit('largeResultBytes', `the result has ${bytes} bytes,`);
  const read = await getRange(s3, { bucket, key }, { start: 0, end: bytes + 1 }, limits).catch(
    (error: unknown) => {
      throw unavailable('read', error);
    },
  );
  const found = digestOf(read.bytes);
  if (found.sha256 === sha256) return read.bytes;
  throw unavailable('read', new Error(`s3://${bucket}/${key} is not the object that was stored`));
}

function digestOf(bytes: Uint8Array): ObjectDigest {
  return { bytes: bytes.byteLength, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** @throws too_large before more than the limit is in memory */
function joined(pieces: Iterable<string>): Buffer {
  const parts: Buffer[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    const part = Buffer.from(piece);
    bytes += part.byteLength;
    if (bytes > LIMITS.largeAnswerBytes)
      throw overLimit('largeAnswerBytes', 'the result as JSON is', 'bytes');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function unavailable(what: string, cause: unknown): ServingError {
  const message = `the large result cannot be ${what} in S3: ${asError(cause).message}`;
  return new ServingError('results_unavailable', message, { cause });
}
