/**
 * The outbox: notices as objects of the job's bucket. A function in a VPC reaches S3 by a gateway endpoint that costs nothing, and
 * the event of S3 about a new object starts a function outside that sends them. The name of an object is the digest of what it says,
 * so what is put again replaces it.
 */
import { createHash } from 'node:crypto';
import { asError, ServingError } from '../contract/errors.ts';
import { outboxPrefix } from '../contract/names.ts';
import type { Notice } from '../contract/notice.ts';
import { putText, type S3Client } from './objects.ts';

/** Notices of one object; and their characters, unless one alone has more. */
const MOST_NOTICES = 500;
const MOST_CHARACTERS = 4 * 1024 * 1024;
const PUT_MS = 5_000;

export class OutboxWriter {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor(s3: S3Client, bucket: string, job: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#prefix = outboxPrefix(job);
  }

  /** @throws results_unavailable; some may be there then, and putting them again is safe */
  async put(notices: readonly Notice[]): Promise<void> {
    try {
      for (const part of partsOf(notices)) {
        const digest = createHash('sha256');
        for (const { id } of part) digest.update(`${id}\n`);
        const key = `${this.#prefix}${digest.digest('hex')}.json`;
        await putText(this.#s3, { bucket: this.#bucket, key }, JSON.stringify(part), { limitMs: PUT_MS });
      }
    } catch (error) {
      const message = `the outbox cannot be written: ${asError(error).message}`;
      throw new ServingError('results_unavailable', message, { cause: error });
    }
  }
}

function partsOf(notices: readonly Notice[]): Notice[][] {
  const parts: Notice[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  for (const notice of notices) {
    const last = parts.at(-1);
    characters += notice.body.length;
    if (last && last.length < MOST_NOTICES && characters <= MOST_CHARACTERS) last.push(notice);
    else {
      parts.push([notice]);
      characters = notice.body.length;
    }
  }
  return parts;
}
