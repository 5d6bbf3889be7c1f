/** The files of OpenAI's API: what was uploaded, and what batches wrote. Ids begin with the time that is left, so that the newest are listed first. */
import { ServingError } from '../../contract/errors.ts';
import { pieceKey } from '../../contract/pieces.ts';
import { type JobStore, readJson } from '../store.ts';
import { factsKey, fileKeys, type KeptFile } from './batch.ts';

export type FileStore = Pick<JobStore, 'text' | 'put' | 'pages' | 'remove' | 'putObject' | 'read'>;

export interface FilePlace {
  readonly job: string;
  readonly bucket: string;
  readonly store: FileStore;
  /** Wall clock in ms. */
  readonly now: () => number;
  /** 12 random hexadecimal digits. */
  readonly random: () => string;
}

export interface Page {
  readonly limit: number;
  /** The last id of the page before. */
  readonly after: string | undefined;
}

/** In the form of OpenAI's API. */
export interface Listed<T> {
  readonly object: 'list';
  readonly data: readonly T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

const END_MS = 2 ** 48 - 1;
const ID = /^file-[0-9a-f]{24}(?:-output|-error)?$/;

export function newStem({ now, random }: Pick<FilePlace, 'now' | 'random'>): string {
  return `${(END_MS - now()).toString(16).padStart(12, '0')}${random()}`;
}

/** When what has this stem was made, in ms. */
export function stemTimeMs(stem: string): number {
  return END_MS - Number.parseInt(stem.slice(0, 12), 16);
}

export class BatchFiles {
  readonly #place: FilePlace;

  constructor(place: FilePlace) {
    this.#place = place;
  }

  /** Where the bytes of a file that is uploaded go; it is a file once it was kept. */
  next(filename: string): Omit<KeptFile, 'bytes'> {
    const { job, now } = this.#place;
    const id = `file-${newStem(this.#place)}`;
    const createdAt = Math.floor(now() / 1000);
    return { id, filename, purpose: 'batch', createdAt, key: `${fileKeys(job).uploads}${id}/` };
  }

  async keep(file: KeptFile) {
    const { job, store } = this.#place;
    await store.put(factsKey(job, file.id), JSON.stringify(file));
    return fileObject(file);
  }

  async upload(filename: string, bytes: Uint8Array) {
    const { bucket, store } = this.#place;
    const next = this.next(filename);
    await store.putObject({ bucket, key: pieceKey(next.key, 0) }, bytes);
    return this.keep({ ...next, bytes: bytes.byteLength });
  }

  /** @throws not_found */
  async kept(id: string): Promise<KeptFile> {
    const { job, store } = this.#place;
    const found = ID.test(id) ? await readJson<KeptFile>(store, factsKey(job, id)) : undefined;
    if (found) return found;
    throw new ServingError('not_found', `No such File object: ${id}`);
  }

  /** @throws not_found */
  async file(id: string) {
    return fileObject(await this.kept(id));
  }

  /** @throws conflict where its bytes are gone */
  read({ key, bytes }: KeptFile, start = 0, end = bytes): Promise<Uint8Array> {
    const { bucket, store } = this.#place;
    return store.read({ bucket, key, bytes, etag: '' }, start, end);
  }

  async list(page: Page, purpose: string | undefined) {
    const { job, store } = this.#place;
    const isMeant = (id: string) =>
      purpose === undefined || purpose === (/-\w+$/.test(id.slice(29)) ? 'batch_output' : 'batch');
    const { facts } = fileKeys(job);
    return listPage(this.#place, { prefix: facts, ending: '.json', page, isMeant }, async (id) => {
      const found = await readJson<KeptFile>(store, factsKey(job, id));
      return found && fileObject(found);
    });
  }

  /** @throws not_found */
  async remove(id: string) {
    const { key } = await this.kept(id);
    const { job, store } = this.#place;
    await store.remove([factsKey(job, id)]);
    await this.drop(key);
    return { id, object: 'file', deleted: true };
  }

  /** Removes the bytes of a file. */
  async drop(key: string): Promise<void> {
    const { bucket, store } = this.#place;
    for await (const page of store.pages({ bucket, key })) await store.remove(page.map((one) => one.key));
  }
}

function fileObject({ id, bytes, createdAt, filename, purpose }: KeptFile) {
  return { id, object: 'file', bytes, created_at: createdAt, filename, purpose, status: 'processed' };
}

interface Asked {
  readonly prefix: string;
  readonly ending: string;
  readonly page: Page;
  readonly isMeant: (id: string) => boolean;
}

/** @param read what an id stands for; undefined where it is gone */
export async function listPage<T extends { readonly id: string }>(
  { bucket, store }: Pick<FilePlace, 'bucket' | 'store'>,
  { prefix, ending, page: { limit, after }, isMeant }: Asked,
  read: (id: string) => Promise<T | undefined>,
): Promise<Listed<T>> {
  const ids: string[] = [];
  const from = after === undefined ? undefined : `${prefix}${after}${ending}`;
  for await (const page of store.pages({ bucket, key: prefix }, from)) {
    const names = page.flatMap(({ key }) =>
      key.endsWith(ending) ? [key.slice(prefix.length, -ending.length)] : [],
    );
    ids.push(...names.filter(isMeant));
    if (ids.length > limit) break;
  }
  const data = (await readTogether(ids.slice(0, limit), read)).filter((one) => one !== undefined);
  const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: 'list', data, first_id: first, last_id: last, has_more: ids.length > limit };
}

const READS = 16;

async function readTogether<T>(ids: readonly string[], read: (id: string) => Promise<T>): Promise<T[]> {
  const found: T[] = [];
  for (let at = 0; at < ids.length; at += READS)
    found.push(...(await Promise.all(ids.slice(at, at + READS).map(read))));
  return found;
}
