/** Bodies that are too large, told by what they announce or send, on a socket that does not wait for its end. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type Gateway, startGateway } from '../../../local/gateway/gateway.ts';

const MiB = 1024 * 1024;
const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function gateway(t: TestContext): Promise<Gateway> {
  const handler = async () => ({ statusCode: 200, body: 'read' });
  const opened = await startGateway({
    port: 0,
    routes: [{ method: 'POST', path: '/', handler }],
    log: QUIET,
    closeTimeoutMs: 0,
  });
  t.after(() => opened.close());
  return opened;
}

/** Sends a head and pieces of a body that never ends, while it may. @returns how many MiB were sent */
async function send(t: TestContext, headers: string, pieces: number) {
  const { port } = await gateway(t);
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.on('error', () => undefined);
  const closed = new Promise((resolve) => socket.on('close', resolve));
  socket.write(`POST / HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n\r\n`);
  const piece = `${MiB.toString(16)}\r\n${'x'.repeat(MiB)}\r\n`;
  let sent = 0;
  for (; sent < pieces && !socket.destroyed; sent++) {
    if (!socket.write(piece))
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
  }
  return { socket, sent };
}

async function firstLine(socket: Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data', { signal: AbortSignal.timeout(5_000) })) as [Buffer];
  return chunk.toString().split('\r\n', 1)[0] as string;
}

test('a body that is announced as too large is refused before a byte of it has come', async (t) => {
  const { socket } = await send(t, `content-length: ${10 * MiB + 1}`, 0);
  assert.equal(await firstLine(socket), 'HTTP/1.1 413 Payload Too Large');
});

test('a body that becomes too large is refused before its end', async (t) => {
  const { socket } = await send(t, 'transfer-encoding: chunked', 11);
  assert.equal(await firstLine(socket), 'HTTP/1.1 413 Payload Too Large');
});

test('a client that continues sending after it was refused is cut in the end', async (t) => {
  const { socket, sent } = await send(t, 'transfer-encoding: chunked', 100);
  assert.ok(socket.destroyed);
  assert.ok(sent > 40 && sent < 100, `${sent} MiB`);
});
