/** The two objects of a large result. S3 and the clock stand in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { LargeResults, readLarge } from '../../../lib/s3/large-results.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';

type Stored = { readonly Body: Uint8Array; readonly ContentType: string; readonly CacheControl: string };

/** @param fails what is refused, by the end of its key */
function memoryS3(fails?: string) {
  const objects = new Map<string, Stored>();
  const s3 = {
    async send(command: PutObjectCommand | GetObjectCommand) {
      const { Key = '' } = command.input;
      if (fails !== undefined && Key.endsWith(fails)) throw new Error('S3 is away');
      if (command instanceof PutObjectCommand)
        return void objects.set(Key, command.input as unknown as Stored);
      const { Body } = objects.get(Key) ?? assert.fail();
      return { Body: [Body] };
    },
  } as unknown as S3Client;
  return { s3, objects, large: new LargeResults(s3, { bucket: 'b', job: 'job', now: () => 7 }) };
}

const BYTES = Uint8Array.of(1, 2, 3);
const CONTENT = { form: 'bytes', bytes: BYTES } as const;

test('a result has two objects under a key of its own, which nothing in between keeps, with their digests', async () => {
  const { s3, objects, large } = memoryS3();
  const pointer = await large.put(CONTENT, (finishedAt) => ['{"at":', `${finishedAt}}`]);
  assert.match(pointer.key, /^results\/job\/[0-9a-f-]{36}$/);
  assert.deepEqual([...objects.keys()].sort(), [pointer.key, `${pointer.key}.json`]);
  const json = objects.get(`${pointer.key}.json`);
  assert.equal(Buffer.from(json?.Body ?? []).toString(), '{"at":7}');
  assert.equal(json?.ContentType, 'application/json; charset=utf-8');
  for (const { CacheControl } of objects.values()) assert.equal(CacheControl, 'no-store');
  assert.deepEqual([pointer.bytes, pointer.json.bytes, pointer.finishedAt], [3, 8, 7]);
  assert.equal(pointer.sha256, '039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81');
  assert.deepEqual(await readLarge(s3, pointer, {}), Buffer.from(BYTES));
  assert.notEqual((await large.put(CONTENT, () => [])).key, pointer.key);
});

test('an object that is another one, or too large, is refused', async () => {
  const { s3, objects, large } = memoryS3();
  const pointer = await large.put(CONTENT, () => ['{}']);
  objects.set(pointer.key, { ...(objects.get(pointer.key) as Stored), Body: Uint8Array.of(1, 2, 4) });
  await assert.rejects(readLarge(s3, pointer, {}), {
    code: 'results_unavailable',
    message: /not the object/,
  });
  const tooMuch = { ...pointer, bytes: LIMITS.largeResultBytes + 1 };
  await assert.rejects(readLarge(s3, tooMuch, {}), { code: 'too_large' });
});

test('a result is stored when both of its objects are, and its JSON may not be longer than the limit', async () => {
  for (const fails of ['', '.json']) {
    const { large } = memoryS3(fails);
    await assert.rejects(
      large.put(CONTENT, () => ['{}']),
      { code: 'results_unavailable' },
    );
  }
  const { large, objects } = memoryS3();
  const piece = ' '.repeat(LIMITS.largeAnswerBytes / 8);
  let made = 0;
  function* pieces(): Generator<string> {
    for (; made < 16; made++) yield piece;
  }
  await assert.rejects(large.put(CONTENT, pieces), { code: 'too_large', message: /largeAnswerBytes/ });
  assert.deepEqual([made, objects.size], [8, 0]);
});
