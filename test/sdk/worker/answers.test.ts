/** The frames between a client in TypeScript and a worker's service, without one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFrame } from '../../../lib/codecs/values/frame.ts';
import type { BytesAnswer } from '../../../sdk/fetch.ts';
import { expect, readFrame, readResult, writeItem } from '../../../sdk/wkr/answers.ts';
import { byNumber } from '../../../sdk/wkr/results.ts';

const LIMIT = 32 * 1024 * 1024;
const answer = (bytes: Buffer, status = 200, type = 'application/x-wkr'): BytesAnswer => {
  const headers = new Headers({ 'content-type': type });
  return { status, ok: status >= 200 && status < 300, headers, bytes };
};
const frame = (header: Readonly<Record<string, unknown>>, blocks: readonly Uint8Array[] = []) =>
  Buffer.concat(encodeFrame(header, blocks));

test('an item has 32 MiB with its frame, and is an array where the protocol is npy', () => {
  const around = writeItem(new Uint8Array(0), 'i', 'm', false).length;
  // The length of the block has so many digits more.
  const room = LIMIT - around - String(LIMIT).length + 1;
  assert.equal(writeItem(new Uint8Array(room), 'i', 'm', false).length, LIMIT);
  assert.throws(() => writeItem(new Uint8Array(room + 1), 'i', 'm', false), {
    code: 'too_large',
    message: 'value: 33554433 bytes are over the limit of 33554432',
  });
  assert.throws(() => writeItem([1], 'i', 'm', true), { message: 'value: the protocol npy sends tensors' });
  const array = { dtype: 'float32', shape: [1], data: Float32Array.of(1) } as const;
  assert.ok(writeItem(array, 'i', 'm', true).length > 8);
});

test('another status of success is a malformed answer', () => {
  for (const status of [200, 202])
    assert.equal(expect(status, 'u', answer(Buffer.of(), status)).status, status);
  for (const [status, wanted] of [
    [200, 202],
    [202, 200],
    [204, 200],
  ] as const)
    assert.throws(() => expect(wanted, 'u', answer(Buffer.of(), status)), {
      message: new RegExp(`the service answered ${status}$`),
    });
  assert.throws(() => expect(200, 'u', answer(Buffer.from('{"code":"rate_limited","error":"no"}'), 429)), {
    code: 'rate_limited',
  });
});

test('an answer is one frame of the type that was asked for', () => {
  const good = frame({ type: 'results', cursor: 1 });
  assert.equal(readFrame(answer(good), 'results').header['cursor'], 1);
  for (const [bytes, type, says] of [
    [good, 'encoded', 'expected a frame encoded'],
    [Buffer.concat([good, good]), 'results', 'expected a frame results'],
    [Buffer.of(), 'results', 'expected a frame results'],
    [good.subarray(0, -1), 'results', 'cut off|ends'],
    [Buffer.concat([good, Buffer.of(0)]), 'results', 'cut off|ends'],
  ] as const)
    assert.throws(() => readFrame(answer(bytes), type), { code: 'internal', message: new RegExp(says) });
  assert.throws(() => readFrame(answer(good, 200, 'application/json'), 'results'), {
    message: /expected application\/x-wkr/,
  });
});

test('an outcome is a value or an error, and nothing beside it', () => {
  const reader = (blocks: readonly Uint8Array[] = []) =>
    readFrame(answer(frame({ type: 'x' }, blocks)), 'x').reader;
  assert.deepEqual(readResult('a', { value: 7 }, reader(), true), { id: 'a', value: 7 });
  const failed = readResult('a', { error: { code: 'model_failed', message: 'm'.repeat(5_000) } }, reader());
  assert.equal(failed.value, null);
  assert.equal((failed.error as { code?: string } | undefined)?.code, 'model_failed');
  assert.equal(failed.error?.message.length, 4_096);
  const unknown = readResult('a', { error: { code: 'other', message: 'm' } }, reader());
  assert.equal((unknown.error as { code?: string } | undefined)?.code, 'internal');
  for (const wrong of [
    null,
    [],
    {},
    { value: 1, error: {} },
    { other: 1 },
    { error: 'm' },
    { error: { code: 'c' } },
    { error: { message: 'm' } },
    { error: { code: 1, message: 'm' } },
    { value: { $t: 'bytes', b: 0 } },
  ])
    assert.throws(() => readResult('a', wrong, reader()), { code: 'internal' }, JSON.stringify(wrong));
  const unused = reader([Uint8Array.of(1)]);
  assert.equal(readResult('a', { value: 7 }, unused).value, 7);
  assert.throws(() => readResult('a', { value: 7 }, unused, true), { code: 'internal' });
});

test('ids sort as numbers, and others behind them', () => {
  const sorted = ['-1', '1', '10', '9', '9007199254740993', '9007199254740992', 'a', 'b'];
  const expected = ['1', '9', '10', '9007199254740992', '9007199254740993', '-1', 'a', 'b'];
  for (const ids of [sorted, sorted.toReversed(), expected, expected.toReversed()]) {
    const found = ids.map((id) => ({ id, value: null })).sort(byNumber);
    assert.deepEqual(
      found.map(({ id }) => id),
      expected,
    );
  }
});
