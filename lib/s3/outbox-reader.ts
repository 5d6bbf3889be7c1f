/** Reads the outbox, outside of the functions that fill it (outbox.ts), and removes what was sent. */
import { asError, badRequest } from '../contract/errors.ts';
import { outboxPrefix } from '../contract/names.ts';
import { isNotice, type Notice } from '../contract/notice.ts';
import { getBytes, type S3Client } from './objects.ts';
import { listPages, removeObjects } from './pages.ts';

/** More than outbox.ts puts into an object, each character of it escaped. */
const READ_BYTES = 32 * 1024 * 1024;
const NAME = /^[0-9a-f]{64}\.json$/;

export class OutboxReader {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor(s3: S3Client, bucket: string, job: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#prefix = outboxPrefix(job);
  }

  /** @returns undefined for an object that is gone. @throws bad_request, S3's error */
  async read(key: string): Promise<readonly Notice[] | undefined> {
    if (!key.startsWith(this.#prefix) || !NAME.test(key.slice(this.#prefix.length)))
      throw badRequest(`${JSON.stringify(key.slice(0, 200))} does not name an object of the outbox`);
    try {
      const bytes = await getBytes(this.#s3, { bucket: this.#bucket, key }, READ_BYTES);
      const notices: unknown = JSON.parse(Buffer.from(bytes).toString());
      if (Array.isArray(notices) && notices.every(isNotice)) return notices;
      throw badRequest(`${key} does not hold notices`);
    } catch (error) {
      if (asError(error).name === 'NoSuchKey') return undefined;
      throw error;
    }
  }

  remove(keys: readonly string[]): Promise<void> {
    return removeObjects(this.#s3, this.#bucket, keys);
  }

  /** Pages of its objects. */
  pages(): ReturnType<typeof listPages> {
    return listPages(this.#s3, this.#bucket, this.#prefix);
  }
}
