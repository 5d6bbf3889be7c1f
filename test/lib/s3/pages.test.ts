import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeleteObjectsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { listPages, readAll, removeObjects } from '../../../lib/s3/pages.ts';

/** S3 with these keys, which answers in pages of two and refuses to delete `locked`. */
function s3With(keys: readonly string[]) {
  const deletions: number[] = [];
  const send = async (command: unknown) => {
    if (command instanceof ListObjectsV2Command) {
      const { Prefix = '', StartAfter = '' } = command.input;
      const found = keys.filter((key) => key.startsWith(Prefix) && key > StartAfter);
      const Contents = found.slice(0, 2).map((Key) => ({ Key, Size: 1, LastModified: new Date(0) }));
      return { Contents, IsTruncated: found.length > 2 };
    }
    assert.ok(command instanceof DeleteObjectsCommand);
    const objects = command.input.Delete?.Objects ?? [];
    deletions.push(objects.length);
    return objects.some(({ Key }) => Key === 'locked')
      ? { Errors: [{ Key: 'locked', Code: 'AccessDenied' }] }
      : {};
  };
  const s3 = Object.assign(Object.create(S3Client.prototype) as S3Client, { send });
  return { s3, deletions };
}

test('a listing meets every key of its prefix once, page by page', async () => {
  const { s3 } = s3With(['a/1', 'a/2', 'a/3', 'a/4', 'a/5', 'b/1']);
  const pages: string[][] = [];
  for await (const page of listPages(s3, 'bucket', 'a/')) {
    pages.push(page.map(({ key }) => key));
    assert.ok(pages.length < 9);
  }
  assert.deepEqual(pages, [['a/1', 'a/2'], ['a/3', 'a/4'], ['a/5']]);
});

test('objects are deleted a thousand to a call, which is what S3 takes', async () => {
  const { s3, deletions } = s3With([]);
  const keys = Array.from({ length: 2_001 }, (_, i) => `key-${i}`);
  await removeObjects(s3, 'bucket', keys);
  assert.deepEqual(deletions, [1_000, 1_000, 1]);
});

test('an object that S3 does not delete is an error with its key, although the call succeeded', async () => {
  const { s3 } = s3With([]);
  await assert.rejects(
    removeObjects(s3, 'bucket', ['a', 'locked']),
    /locked cannot be deleted: AccessDenied/,
  );
});

test('sixteen objects are read at a time, and come back in their order', async () => {
  let reading = 0;
  let most = 0;
  const read = async (item: number) => {
    most = Math.max(most, ++reading);
    await new Promise((resolve) => setImmediate(resolve));
    reading--;
    return item * 2;
  };
  const items = Array.from({ length: 40 }, (_, i) => i);
  assert.deepEqual(
    await readAll(items, read),
    items.map((item) => item * 2),
  );
  assert.equal(most, 16);
});
