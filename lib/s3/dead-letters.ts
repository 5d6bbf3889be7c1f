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
import { badConfig, ServingError } from '../contract/errors.ts';
import { deadLetterPrefix, formerDeadLetterPrefix } from '../contract/names.ts';
import { getBytes, type S3Client } from './objects.ts';
import { listPages, readAll, removeObjects } from './pages.ts';

export interface DeadLetterEntry {
  readonly id: string;
  /** Of the file. */
  readonly key: string;
  /** Of the file. */
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

type Pages = AsyncGenerator<readonly DeadLetterEntry[], undefined>;

export class DeadLetters {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #job: string;
  /** Today's, and that of earlier versions. */
  readonly #prefixes: readonly [string, string];

  constructor(s3: S3Client, bucket: string, job: string) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#job = job;
    this.#prefixes = [deadLetterPrefix(job), formerDeadLetterPrefix(job)];
  }

  /** Pages in the order of ids. @param after returns only ids after this one. @throws queue_unavailable */
  async *pages(after?: string): AsyncGenerator<readonly DeadLetterEntry[]> {
    const [today, former] = this.#prefixes;
    try {
      yield* merged(this.#pagesBelow(today, after), this.#pagesBelow(former, after));
    } catch (error) {
      throw this.#unavailable('listed', error);
    }
  }

  async *#pagesBelow(prefix: string, after: string | undefined): Pages {
    const from = after === undefined ? undefined : `${prefix}${after}${ENDING}`;
    for await (const page of listPages(this.#s3, this.#bucket, prefix, from)) {
      const entries = page.flatMap(({ key, bytes, modifiedAt }) => {
        const id = key.slice(prefix.length, -ENDING.length);
        return key.endsWith(ENDING) && ID.test(id) ? [{ id, key, bytes, archivedAt: modifiedAt }] : [];
      });
      if (entries.length > 0) yield entries;
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
      const [today, former] = this.#keysOf(id);
      const text = (await this.#read(today, FILE_BYTES)) ?? (await this.#read(former, FILE_BYTES));
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
    // A deployment may have left one message under both.
    const keys = ids.flatMap((id) => this.#keysOf(id));
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

  #keysOf(id: string): readonly [today: string, former: string] {
    const [today, former] = this.#prefixes;
    const name = `${assertId(id)}${ENDING}`;
    return [today + name, former + name];
  }

  async #read(key: string, limit: number): Promise<string | undefined> {
    try {
      return Buffer.from(await getBytes(this.#s3, { bucket: this.#bucket, key }, limit)).toString();
    } catch (error) {
      const { name } = error as Error;
      if (name === 'NoSuchKey') return undefined;
      // A range of an empty file is invalid.
      if (name === 'InvalidRange') return '';
      throw this.#unavailable('read', error);
    }
  }

  #unavailable(what: string, error: unknown): ServingError {
    if (error instanceof ServingError) return error;
    const { message, name } = error as Error;
    return new ServingError(
      'queue_unavailable',
      `s3://${this.#bucket}/${this.#prefixes[0]} cannot be ${what}: ${message || name}`,
      { cause: error },
    );
  }
}

/** Merges two listings in the order of their keys. For an id in both, the entry of the first listing counts. */
async function* merged(one: Pages, other: Pages): Pages {
  const next = async (pages: Pages) => (await pages.next()).value ?? [];
  let [first, second] = await Promise.all([next(one), next(other)]);
  while (first.length > 0 && second.length > 0) {
    const end = [first, second].map((page) => nameOf(page.at(-1))).sort()[0] as string;
    const isWithin = (entry: DeadLetterEntry) => nameOf(entry) <= end;
    const ids = new Set(first.filter(isWithin).map(({ id }) => id));
    const others = second.filter((entry) => isWithin(entry) && !ids.has(entry.id));
    yield [...first.filter(isWithin), ...others].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
    first = first.filter((entry) => !isWithin(entry));
    second = second.filter((entry) => !isWithin(entry));
    if (first.length === 0) first = await next(one);
    if (second.length === 0) second = await next(other);
  }
  for (; first.length > 0; first = await next(one)) yield first;
  for (; second.length > 0; second = await next(other)) yield second;
}

/** S3 sorts by the full key, including the ending. */
function nameOf(entry: DeadLetterEntry | undefined): string {
  return `${entry?.id ?? ''}${ENDING}`;
}

/** @throws bad_config for an invalid id, which would name another file */
function assertId(id: string): string {
  if (ID.test(id)) return id;
  const got = JSON.stringify(id.slice(0, 80));
  throw badConfig(`${got}: expected the id of a dead letter, as \`dlq list\` prints it`);
}
