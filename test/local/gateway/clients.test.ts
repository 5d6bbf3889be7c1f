/** Returns whether a client still waits, and the slot that its request holds. */
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { Served } from '../../../local/gateway/clients.ts';
import { isTooLargeForLambda, newRequestId } from '../../../local/gateway/event.ts';
import { Slots } from '../../../local/gateway/slots.ts';

const open = () => new Served(new ServerResponse(new IncomingMessage(new Socket())));

test('a client that may have left frees its slot until it is there again, and one that left is gone', () => {
  const slots = new Slots(1);
  const served = open();
  const seen: string[] = [];
  const slot = served.take(slots, () => seen.push(served.presence));
  const { signal } = served;
  assert.equal(slots.isFull, true);
  served.become('waits');
  served.become('doubtful');
  assert.deepEqual([slots.isFull, signal.aborted], [false, false]);
  served.become('waits');
  assert.equal(slots.isFull, true);
  served.become('gone');
  assert.deepEqual([slots.isFull, signal.aborted], [false, true]);
  assert.equal((signal.reason as { code?: string }).code, 'cancelled');
  for (const late of ['waits', 'doubtful', 'gone'] as const) served.become(late);
  assert.deepEqual(seen, ['doubtful', 'waits', 'gone']);
  slot.release();
});

test('a client that left before its request had a slot takes none, and its signal says so', () => {
  for (const presence of ['doubtful', 'gone'] as const) {
    const slots = new Slots(1);
    const served = open();
    served.become(presence);
    served.take(slots, undefined);
    assert.equal(slots.isFull, false);
    assert.equal(served.signal.aborted, presence === 'gone');
    assert.equal(served.signal, served.signal);
  }
  assert.notEqual(open().requestId, open().requestId);
});

test('an id has sixteen characters of which no two are the same', () => {
  const ids = Array.from({ length: 40 }, newRequestId);
  assert.equal(new Set(ids).size, 40);
  for (const id of ids) assert.match(id, /^[0-9a-f]{6}[0-9a-z]{9}=$/);
});

test('an event over 6 MB of JSON is too large for Lambda, as text by its characters there', () => {
  const limit = 6 * 1024 * 1024;
  const event = (body: string, isBase64Encoded = true) =>
    ({ body, isBase64Encoded }) as unknown as APIGatewayProxyEventV2;
  for (const isBase64Encoded of [true, false]) {
    const around = JSON.stringify(event('', isBase64Encoded)).length;
    for (const [bytes, expected] of [
      [1, false],
      [limit - around, false],
      [limit - around + 1, true],
    ] as const)
      assert.equal(isTooLargeForLambda(event('x'.repeat(bytes), isBase64Encoded)), expected, String(bytes));
  }
  assert.equal(isTooLargeForLambda(event('\u0001'.repeat(limit / 6), false)), true);
  assert.equal(isTooLargeForLambda({} as APIGatewayProxyEventV2), false);
});
