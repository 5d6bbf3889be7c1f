/**
 * Stores records that are too large for a message (claim check). The object is written before the message, so a
 * message always has its object; the bucket's lifecycle removes payloads without a message. The messages of an event
 * may point at more than fits into memory, so only part of them is read at once.
 */
import { randomUUID } from 'node:crypto';
import { decodePointer, type Pointer } from '../codecs/pointer.ts';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { payloadPrefix } from '../contract/names.ts';
import { getBytes, putText, type S3Client } from './objects.ts';

/** The limit for payloads that are read together: two of the largest. */
const TOGETHER_BYTES = 2 * LIMITS.payloadBytes;
const MOST_READS = 16;

export class PayloadStore {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #job: string;
  readonly #limitMs: () => number | undefined;

  /** @param limitMs how long a put may take now. Default: as long as it goes on */
  constructor(
    s3: S3Client,
    bucket: string,
    job: string,
    limitMs: () => number | undefined = () => undefined,
  ) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#job = job;
    this.#limitMs = limitMs;
  }

  /** @returns the key for a pointer. @throws too_large, queue_unavailable */
  async put(body: string): Promise<string> {
    const bytes = Buffer.byteLength(body);
    if (bytes > LIMITS.payloadBytes) throw overLimit('payloadBytes', `the record is ${bytes} bytes,`);
    const key = payloadPrefix(this.#job) + randomUUID();
    const limitMs = this.#limitMs();
    await putText(this.#s3, { bucket: this.#bucket, key }, body, { limitMs }).catch((error: unknown) => {
      throw unavailable('stored', error);
    });
    return key;
  }

  /**
   * Returns the bodies, with pointers replaced by their payloads or by the error of the record.
   * @returns the first of them, in order: as many as have 64 MiB together, but at least one
   */
  async resolve(bodies: readonly string[]): Promise<(string | ServingError)[]> {
    const slots: (string | ServingError)[] = [];
    const reading = new Set<Promise<void>>();
    let bytes = 0;
    for (const [i, body] of bodies.entries()) {
      const pointer = decodePointer(body, this.#job);
      if (!pointer) {
        slots[i] = body;
        continue;
      }
      const most = pointer.bytes ?? LIMITS.payloadBytes;
      // Payloads being read may be smaller than their limit.
      const isOver = () => bytes + most > TOGETHER_BYTES;
      while (reading.size > 0 && (reading.size === MOST_READS || isOver())) await Promise.race(reading);
      if (isOver()) break;
      bytes += most;
      const read = async () => {
        const payload = await this.#read(pointer, most);
        slots[i] = payload.body;
        bytes += payload.bytes - most;
        reading.delete(done);
      };
      const done = read();
      reading.add(done);
    }
    await Promise.all(reading);
    return slots;
  }

  /** Never throws. */
  async #read({ uri, key }: Pointer, most: number): Promise<Read> {
    try {
      const bytes = await getBytes(this.#s3, { bucket: this.#bucket, key }, most + 1);
      if (bytes.byteLength > most) return { body: tooLarge(uri, most), bytes: 0 };
      return { body: Buffer.from(bytes).toString(), bytes: bytes.byteLength };
    } catch (error) {
      const isGone = asError(error).name === 'NoSuchKey';
      const gone = `the payload ${key} is not there (any more)`;
      const body = isGone ? badRequest(gone, { uri }) : unavailable('read', error, uri);
      return { body, bytes: 0 };
    }
  }
}

interface Read {
  readonly body: string | ServingError;
  /** That are kept. */
  readonly bytes: number;
}

function tooLarge(uri: string, most: number): ServingError {
  return most === LIMITS.payloadBytes
    ? new ServingError('too_large', `the record is over the limit of ${most} bytes`, { uri })
    : badRequest(`the payload is over the ${most} bytes that its pointer says`, { uri });
}

function unavailable(what: string, cause: unknown, uri?: string): ServingError {
  const message = `the payload cannot be ${what} in S3: ${asError(cause).message}`;
  return new ServingError('queue_unavailable', message, { cause, uri });
}
