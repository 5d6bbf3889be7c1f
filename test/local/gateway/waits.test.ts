/** Requests that wait for results have a limit of their own, and a refusal that says so. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { startGateway } from '../../../local/gateway/gateway.ts';
import { Slots } from '../../../local/gateway/slots.ts';
import { until } from '../../support/until.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

test('waits take no slot of other requests, and more of them than the limit are refused until clients leave', async (t) => {
  let waiting = 0;
  const gateway = await startGateway({
    port: 0,
    log: QUIET,
    maxConcurrentRequests: 1,
    maxWaits: 2,
    closeTimeoutMs: 1,
    routes: [
      {
        method: 'GET',
        path: '/result',
        waits: ({ prefer }) => prefer === 'wait=20',
        handler: (_, { caller }) => {
          if (!caller) throw new Error('the gateway says who waits');
          waiting++;
          return new Promise((resolve) => {
            caller.signal.addEventListener('abort', () => {
              waiting--;
              resolve({ statusCode: 409 });
            });
          });
        },
      },
      { method: 'GET', path: '/other', handler: async () => ({ statusCode: 200 }) },
    ],
  });
  t.after(() => gateway.close());
  const sockets = [0, 1].map(() => {
    const socket = connect(gateway.port, '127.0.0.1').on('error', () => undefined);
    socket.write('GET /result HTTP/1.1\r\nhost: localhost\r\nprefer: wait=20\r\n\r\n');
    return socket;
  });
  t.after(() => sockets.map((socket) => socket.destroy()));
  await until(() => waiting === 2);
  assert.equal((await fetch(`${gateway.url}/other`)).status, 200);
  const refused = await fetch(`${gateway.url}/result`, { headers: { prefer: 'wait=20' } });
  assert.deepEqual(
    [refused.status, refused.headers.get('retry-after'), await refused.json()],
    [
      429,
      '1',
      {
        error: 'too many clients wait for results; ask again later, or without waiting',
        code: 'rate_limited',
      },
    ],
  );
  for (const socket of sockets) socket.destroy();
  await until(() => waiting === 0);
});

test('a request counts once among those whose client waits, or among the handlers that still run', () => {
  const slots = new Slots(2);
  const [one, two] = [slots.take(), slots.take()];
  assert.equal(slots.isFull, true);
  for (let i = 0; i < 2; i++) one.abandon();
  assert.equal(slots.isFull, false);
  for (let i = 0; i < 2; i++) one.resume();
  assert.equal(slots.isFull, true);
  one.abandon();
  for (const { release } of [one, two]) release();
  for (const { abandon, resume } of [one, two]) {
    abandon();
    resume();
  }
  // Four handlers for each of two places, and none is left of before.
  const left = Array.from({ length: 8 }, () => {
    assert.equal(slots.isFull, false);
    const slot = slots.take();
    slot.abandon();
    return slot;
  });
  assert.equal(slots.isFull, true);
  for (const { release } of left) release();
  slots.take();
  assert.equal(slots.isFull, false);
  slots.take();
  assert.equal(slots.isFull, true);
});
