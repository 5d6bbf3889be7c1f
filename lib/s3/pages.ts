/**
 * Lists the objects below a prefix page by page, and reads or deletes many objects. Each page begins after the last
 * key of the previous one, so concurrent deletions do not shift it.
 */
import { DeleteObjectsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import type { S3Client } from './objects.ts';

interface PagedObject {
  readonly key: string;
  readonly bytes: number;
  readonly etag: string;
  /** When it was written, in ms since 1970. */
  readonly modifiedAt: number;
}

/** S3 returns a page in a tenth of a second. */
const CALL_MS = 20_000;
/** S3's limit of one call. */
const KEYS_PER_CALL = 1_000;
const READS_AT_ONCE = 16;

/** Reads many objects, sixteen at a time. @returns the results in order */
export async function readAll<T, R>(items: readonly T[], read: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  for (let i = 0; i < items.length; i += READS_AT_ONCE) {
    answers.push(...(await Promise.all(items.slice(i, i + READS_AT_ONCE).map(read))));
  }
  return answers;
}

/**
 * Includes sub-folders, in the order of keys.
 * @param after only keys after this one, which need not exist
 */
export async function* listPages(
  s3: S3Client,
  bucket: string,
  prefix: string,
  after?: string,
): AsyncGenerator<readonly PagedObject[]> {
  let last = after;
  for (;;) {
    const list = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, StartAfter: last });
    const page = await s3.send(list, { abortSignal: AbortSignal.timeout(CALL_MS) });
    const objects = (page.Contents ?? []).map(({ Key = '', Size = 0, ETag = '', LastModified }) => ({
      key: Key,
      bytes: Size,
      etag: ETag,
      modifiedAt: LastModified?.getTime() ?? 0,
    }));
    if (objects.length > 0) yield objects;
    last = objects.at(-1)?.key;
    if (!page.IsTruncated || last === undefined) return;
  }
}

/** A missing object counts as deleted. @throws S3's error with the first key that was not deleted */
export async function removeObjects(s3: S3Client, bucket: string, keys: readonly string[]): Promise<void> {
  for (let i = 0; i < keys.length; i += KEYS_PER_CALL) {
    const Objects = keys.slice(i, i + KEYS_PER_CALL).map((Key) => ({ Key }));
    const remove = new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } });
    const { Errors = [] } = await s3.send(remove, { abortSignal: AbortSignal.timeout(CALL_MS) });
    const [first] = Errors;
    if (first) throw new Error(`${first.Key} cannot be deleted: ${first.Code} ${first.Message ?? ''}`);
  }
}
