/**
 * Lists, reads and removes a job's dead-lettered messages. There may be a hundred thousand, so no more than a page is
 * held in memory, and a listing reads the first 4 kB of each.
 */
import {
  type DeadLetter,
  type DeadLetterFacts,
  deadLetterFacts,
  deadLetterFactsOfHead,
  decodeDeadLetter,
} from '../codecs/dead-letter.ts';
import { decodePointer } from '../codecs/pointer.ts';
import { asError, badConfig, ServingError } from '../contract/errors.ts';
import { deadLetterPrefix } from '../contract/names.ts';
import { getBytes, type S3Client } from './objects.ts';
import { listPages, readAll, removeObjects } from './pages.ts';

export interface DeadLetterEntry {
  readonly id: string;
  /** The file's key in S3. */
  readonly key: string;
  /** The file's key in S3. */
  readonly bytes: number;
  /** In ms since 1970. */
  readonly archivedAt: number;
}

export interface DeadLetterHead extends DeadLetterEntry, DeadLetterFacts {
  /** False for a file that is not a dead letter. */
  readonly readable: boolean;
}

const HEAD_BYTES = 4_096;
/** A body of 1 MiB, each byte of it escaped as `\u0000`. */
const FILE_BYTES = 8 * 1024 * 1024;
/** Larger files contain no pointer. */
const POINTER_FILE_BYTES = 32 * 1024;
const ID = /^[\w-]{1,128}$/;
const ENDING = '.json';

export class DeadLetters {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #job: string;
  readonly #prefix: string;

  constructor(s3: S3Client, bucket: string, job: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#job = job;
    this.#prefix = deadLetterPrefix(job);
  }

  /** Pages in the order of ids. @param after returns only ids after this one. @throws queue_unavailable */
  async *pages(after?: string): AsyncGenerator<readonly DeadLetterEntry[]> {
    const prefix = this.#prefix;
    const from = after === undefined ? undefined : `${prefix}${after}${ENDING}`;
    try {
      for await (const page of listPages(this.#s3, this.#bucket, prefix, from)) {
        const entries = page.flatMap(({ key, bytes, modifiedAt }) => {
          const id = key.slice(prefix.length, -ENDING.length);
          return key.endsWith(ENDING) && ID.test(id) ? [{ id, key, bytes, archivedAt: modifiedAt }] : [];
        });
        if (entries.length > 0) yield entries;
      }
    } catch (error) {
      throw this.#unavailable('listed', error);
    }
  }

  /** One head per entry, in order; undefined for a deleted message. @throws queue_unavailable */
  async heads(entries: readonly DeadLetterEntry[]): Promise<(DeadLetterHead | undefined)[]> {
    return readAll(entries, (entry) => this.#head(entry));
  }

  async #head(entry: DeadLetterEntry): Promise<DeadLetterHead | undefined> {
    const first = await this.#read(entry.key, HEAD_BYTES);
    if (first === undefined) return undefined;
    let facts = entry.bytes <= HEAD_BYTES ? deadLetterFacts(first) : deadLetterFactsOfHead(first);
    if (!facts && entry.bytes > HEAD_BYTES)
      facts = deadLetterFacts((await this.#read(entry.key, FILE_BYTES)) ?? '');
    const nothing = { uri: undefined, sentAt: undefined, attempts: undefined };
    return { ...entry, ...(facts ?? nothing), readable: facts !== undefined };
  }

  /** One message per id, in order; undefined for a deleted one, an error for an invalid file. */
  async messages(ids: readonly string[]): Promise<(DeadLetter | ServingError | undefined)[]> {
    return readAll(ids, async (id) => {
      const text = await this.#read(this.#keyOf(id), FILE_BYTES);
      if (text === undefined) return undefined;
      try {
        return decodeDeadLetter(text);
      } catch (error) {
        return ServingError.from(error);
      }
    });
  }

  /** @throws queue_unavailable when only some were removed */
  async remove(ids: readonly string[]): Promise<void> {
    const keys = ids.map((id) => this.#keyOf(id));
    await removeObjects(this.#s3, this.#bucket, keys).catch((error: unknown) => {
      throw this.#unavailable('deleted', error);
    });
  }

  /** Removes the payloads of the messages, then the messages, so that a failure can be repeated. */
  async removeWithPayloads(entries: readonly DeadLetterEntry[]): Promise<void> {
    const small = entries.filter(({ bytes }) => bytes <= POINTER_FILE_BYTES).map(({ id }) => id);
    const payloads = (await this.messages(small)).flatMap((message) => {
      if (message === undefined || message instanceof ServingError) return [];
      return decodePointer(message.body, this.#job)?.key ?? [];
    });
    await removeObjects(this.#s3, this.#bucket, payloads).catch((error: unknown) => {
      throw this.#unavailable('deleted', error);
    });
    await this.remove(entries.map(({ id }) => id));
  }

  #keyOf(id: string): string {
    return `${this.#prefix}${assertId(id)}${ENDING}`;
  }

  async #read(key: string, limit: number): Promise<string | undefined> {
    try {
      return Buffer.from(await getBytes(this.#s3, { bucket: this.#bucket, key }, limit)).toString();
    } catch (error) {
      const { name } = asError(error);
      if (name === 'NoSuchKey') return undefined;
      // A range of an empty file is invalid.
      if (name === 'InvalidRange') return '';
      throw this.#unavailable('read', error);
    }
  }

  #unavailable(what: string, error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    const { message, name } = asError(error);
    return new ServingError(
      'queue_unavailable',
      `s3://${this.#bucket}/${this.#prefix} cannot be ${what}: ${message || name}`,
      { cause: error },
    );
  }
}

/** @throws bad_config for an invalid id, which would name another file */
function assertId(id: string): string {
  if (ID.test(id)) return id;
  const got = JSON.stringify(id.slice(0, 80));
  throw badConfig(`${got}: expected the id of a dead letter, as \`dlq list\` prints it`);
}
