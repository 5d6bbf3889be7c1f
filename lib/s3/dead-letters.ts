/**
 * Lists, reads and removes a job's parked messages. There may be a hundred thousand, so no more than a page is held in
 * memory, and a listing reads the first 4 kB of each.
 */
import {
  decodeParked,
  type ParkedFacts,
  type ParkedMessage,
  parkedFacts,
  parkedFactsOfHead,
} from '../codecs/dead-letter.ts';
import { decodePointer } from '../codecs/pointer.ts';
import { badConfig, ServingError } from '../contract/errors.ts';
import { parkedPrefix } from '../contract/names.ts';
import { getBytes, type S3Client } from './objects.ts';
import { listPages, readAll, removeObjects } from './pages.ts';

export interface ParkedEntry {
  readonly id: string;
  /** Of the file. */
  readonly bytes: number;
  /** In ms since 1970. */
  readonly parkedAt: number;
}

export interface ParkedHead extends ParkedEntry, ParkedFacts {
  /** False for a file that is no parked message. */
  readonly readable: boolean;
}

const HEAD_BYTES = 4_096;
/** A body of 1 MiB, each byte of it escaped as `\u0000`. */
const FILE_BYTES = 8 * 1024 * 1024;
/** Larger files hold no pointer. */
const POINTER_FILE_BYTES = 32 * 1024;
const ID = /^[\w-]{1,128}$/;
const ENDING = '.json';

export class ParkedMessages {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #job: string;

  constructor(s3: S3Client, bucket: string, job: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#job = job;
  }

  /** In the order of their ids. @param after only ids behind this one. @throws queue_unavailable */
  async *pages(after?: string): AsyncGenerator<readonly ParkedEntry[]> {
    const prefix = parkedPrefix(this.#job);
    const from = after === undefined ? undefined : `${prefix}${after}${ENDING}`;
    try {
      for await (const page of listPages(this.#s3, this.#bucket, prefix, from)) {
        const entries = page.flatMap(({ key, bytes, modifiedAt }) => {
          const id = key.slice(prefix.length, -ENDING.length);
          return key.endsWith(ENDING) && ID.test(id) ? [{ id, bytes, parkedAt: modifiedAt }] : [];
        });
        if (entries.length > 0) yield entries;
      }
    } catch (error) {
      throw this.#unavailable('listed', error);
    }
  }

  /** As many heads, in order; undefined for one that is gone by now. @throws queue_unavailable */
  async heads(entries: readonly ParkedEntry[]): Promise<(ParkedHead | undefined)[]> {
    return readAll(entries, (entry) => this.#head(entry));
  }

  async #head(entry: ParkedEntry): Promise<ParkedHead | undefined> {
    const first = await this.#read(entry.id, HEAD_BYTES);
    if (first === undefined) return undefined;
    let facts = entry.bytes <= HEAD_BYTES ? parkedFacts(first) : parkedFactsOfHead(first);
    if (!facts && entry.bytes > HEAD_BYTES)
      facts = parkedFacts((await this.#read(entry.id, FILE_BYTES)) ?? '');
    const nothing = { uri: undefined, sentAt: undefined, tries: undefined };
    return { ...entry, ...(facts ?? nothing), readable: facts !== undefined };
  }

  /** As many messages, in order; undefined for one that is gone by now, an error for a file that is none. */
  async messages(ids: readonly string[]): Promise<(ParkedMessage | ServingError | undefined)[]> {
    return readAll(ids, async (id) => {
      const text = await this.#read(assertId(id), FILE_BYTES);
      if (text === undefined) return undefined;
      try {
        return decodeParked(text);
      } catch (error) {
        return ServingError.from(error);
      }
    });
  }

  /** @throws queue_unavailable; then some are gone and some are not */
  async remove(ids: readonly string[]): Promise<void> {
    const prefix = parkedPrefix(this.#job);
    const keys = ids.map((id) => `${prefix}${assertId(id)}${ENDING}`);
    await removeObjects(this.#s3, this.#bucket, keys).catch((error: unknown) => {
      throw this.#unavailable('deleted', error);
    });
  }

  /** The messages and what they point at, that first: what is left can be deleted again. */
  async removeWithPayloads(entries: readonly ParkedEntry[]): Promise<void> {
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

  async #read(id: string, limit: number): Promise<string | undefined> {
    const key = `${parkedPrefix(this.#job)}${id}${ENDING}`;
    try {
      return Buffer.from(await getBytes(this.#s3, { bucket: this.#bucket, key }, limit)).toString();
    } catch (error) {
      const { name } = error as Error;
      if (name === 'NoSuchKey') return undefined;
      // An empty file has no first byte to begin a range with.
      if (name === 'InvalidRange') return '';
      throw this.#unavailable('read', error);
    }
  }

  #unavailable(what: string, error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    const { message, name } = error as Error;
    return new ServingError(
      'queue_unavailable',
      `s3://${this.#bucket}/${parkedPrefix(this.#job)} cannot be ${what}: ${message || name}`,
      { cause: error },
    );
  }
}

/** @throws bad_config for what is no id: it would name another file */
function assertId(id: string): string {
  if (ID.test(id)) return id;
  const got = JSON.stringify(id.slice(0, 80));
  throw badConfig(`${got}: expected the id of a parked message, as \`dlq list\` prints it`);
}
