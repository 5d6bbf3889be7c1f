/**
 * A thousand clients wait for results that never come, on the whole local stack: other requests must still be served.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { quietLog } from '../../faults/support/quiet.ts';
import { testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const WAITS = 1_000;

test('a thousand waits block no request to /ready, and no request at all once their clients left', async (t) => {
  // The remaining waits find Redis closed in the end.
  quietLog(t);
  const stack = await testStack(t);
  const { port } = new URL(stack.url);
  const status = async (path: string) => (await fetch(`${stack.url}${path}`)).status;
  const sockets = Array.from({ length: WAITS }, (_, i) => {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    socket.write(`GET /predictions/none-${i} HTTP/1.1\r\nhost: localhost\r\nprefer: wait=20\r\n\r\n`);
    return socket;
  });
  t.after(() => sockets.map((socket) => socket.destroy()));
  await until(async () => (await status('/status?uri=x')) === 429);
  for (const path of ['/', '/ready', '/metrics']) assert.equal(await status(path), 200, path);
  const leftAt = performance.now();
  for (const socket of sockets) socket.destroy();
  // Well before the waits are over, which cannot be ended from outside.
  await until(async () => (await status('/status?uri=x')) !== 429, 10_000);
  t.diagnostic(`free ${Math.round(performance.now() - leftAt)} ms after the clients left`);
});
