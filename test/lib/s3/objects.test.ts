import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getBytes, getRange, getText, type S3Client } from '../../../lib/s3/objects.ts';

interface Asked {
  readonly Range?: string;
  readonly IfMatch?: string;
}

/** An S3 that gives one body after the other; an error interrupts the reading, or replaces the answer. */
function s3With(...bodies: (string | { readonly breaksOff: true } | { readonly refuses: string })[]) {
  const asked: Asked[] = [];
  const signals: (AbortSignal | undefined)[] = [];
  const s3 = {
    async send({ input }: { input: Asked }, { abortSignal }: { abortSignal?: AbortSignal } = {}) {
      const body = bodies[asked.length] ?? assert.fail('asked too often');
      asked.push(input);
      signals.push(abortSignal);
      if (typeof body === 'string') {
        return { ETag: '"tag"', Body: [Buffer.from(body)] };
      }
      if ('refuses' in body) throw Object.assign(new Error(body.refuses), { name: body.refuses });
      return {
        Body: {
          [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error('the connection broke')) }),
        },
      };
    },
  } as unknown as S3Client;
  return { s3, asked, signals };
}

const ADDRESS = { bucket: 'bucket', key: 'key' };
const CUT = { breaksOff: true } as const;

test('a body that breaks off is asked for once more, and not a third time', async () => {
  const once = s3With(CUT, 'whole');
  assert.equal(Buffer.from(await getBytes(once.s3, ADDRESS, 10)).toString(), 'whole');
  const twice = s3With(CUT, CUT, 'whole');
  await assert.rejects(getBytes(twice.s3, ADDRESS, 10), /the connection broke/);
});

test('a range names the version that it belongs to, and ends before its end', async () => {
  const { s3, asked } = s3With('a', 'b');
  await getRange(s3, ADDRESS, { start: 5, end: 10, etag: '"tag"' });
  await getRange(s3, ADDRESS, { start: 0, end: 5 });
  assert.deepEqual(
    asked.map(({ Range, IfMatch }) => [Range, IfMatch]),
    [
      ['bytes=5-9', '"tag"'],
      ['bytes=0-4', undefined],
    ],
  );
});

test('a text is read up to 1 MiB; one that is missing is undefined, and an empty one is empty', async () => {
  const { s3, asked } = s3With('text');
  assert.equal(await getText(s3, ADDRESS), 'text');
  assert.equal(asked[0]?.Range, 'bytes=0-1048575');
  assert.equal(await getText(s3With({ refuses: 'NoSuchKey' }).s3, ADDRESS), undefined);
  assert.equal(await getText(s3With({ refuses: 'InvalidRange' }, '').s3, ADDRESS), '');
  await assert.rejects(getText(s3With({ refuses: 'AccessDenied' }).s3, ADDRESS), /AccessDenied/);
});

test('a read, its repetition included, has eight seconds', async (t) => {
  const limits: number[] = [];
  const original = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => {
    limits.push(ms);
    return original(ms);
  });
  const { s3, signals } = s3With(CUT, 'whole');
  await getBytes(s3, ADDRESS, 10);
  assert.deepEqual(limits, [8_000]);
  assert.ok(signals[0] instanceof AbortSignal && signals[1] === signals[0]);
});
