/**
 * Records that are too large for a message (claim check). In: a message body. Out: its key in S3, and the way back.
 * Trap: the object goes first and the message second, so that a message never points at nothing; payloads nobody
 * points at are removed by the bucket's lifecycle.
 */
import { randomUUID } from 'node:crypto';
import { decodePointer } from '../codecs/pointer.ts';
import { LIMITS } from '../contract/limits.ts';
import { payloadPrefix } from '../contract/names.ts';
import { ServingError } from '../errors.ts';
import { getBytes, putText, type S3Client } from './objects.ts';

export class PayloadStore {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #job: string;

  constructor(s3: S3Client, bucket: string, job: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#job = job;
  }

  /** @returns the key for a pointer. @throws too_large, queue_unavailable */
  async put(body: string): Promise<string> {
    const bytes = Buffer.byteLength(body);
    if (bytes > LIMITS.payloadBytes) {
      throw new ServingError(
        'too_large',
        `the record is ${bytes} bytes, over the limit of ${LIMITS.payloadBytes}`,
      );
    }
    const key = payloadPrefix(this.#job) + randomUUID();
    await putText(this.#s3, { bucket: this.#bucket, key }, body).catch((error: unknown) => {
      throw unavailable('stored', error);
    });
    return key;
  }

  /** Bodies as they are, but pointers replaced by what they point at; a slot may be the error of its record. */
  resolve(bodies: readonly string[]): Promise<(string | ServingError)[]> {
    return Promise.all(bodies.map((body) => this.#resolve(body)));
  }

  async #resolve(body: string): Promise<string | ServingError> {
    const pointer = decodePointer(body, this.#job);
    if (!pointer) return body;
    const { uri, key } = pointer;
    try {
      const bytes = await getBytes(this.#s3, { bucket: this.#bucket, key }, LIMITS.payloadBytes + 1);
      if (bytes.byteLength <= LIMITS.payloadBytes) return Buffer.from(bytes).toString();
      return new ServingError('too_large', `the record is over the limit of ${LIMITS.payloadBytes} bytes`, {
        uri,
      });
    } catch (error) {
      if ((error as Error).name !== 'NoSuchKey') return unavailable('read', error, uri);
      return new ServingError('bad_request', `the payload ${key} is not there (any more)`, { uri });
    }
  }
}

function unavailable(what: string, cause: unknown, uri?: string): ServingError {
  const message = `the payload cannot be ${what} in S3: ${(cause as Error).message}`;
  return new ServingError('queue_unavailable', message, { cause, uri });
}
