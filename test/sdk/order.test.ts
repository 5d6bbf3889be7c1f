/** Records that one caller enqueues under one uri arrive in the order of its calls, even without waiting for each. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { InputQueue, type ServingError } from '../../sdk/index.ts';

/** A service that answers its first requests last. @returns its url, and the values that it got of each uri */
async function slowService(t: { after(work: () => unknown): void }) {
  const got = new Map<string, number[]>();
  let requests = 0;
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const pause = Math.max(0, 60 - 10 * requests++);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    await delay(pause);
    const { uri, data } = JSON.parse(Buffer.concat(chunks).toString()) as { uri: string; data: string };
    got.set(uri, [...(got.get(uri) ?? []), Buffer.from(data, 'base64').byteLength]);
    response
      .writeHead(202, { 'content-type': 'application/json' })
      .end(JSON.stringify({ uri, identity: 'i' }));
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got };
}

const longer = (i: number) => ({ x: new Float32Array(1 + 16 * i) });

test('enqueues of one uri that no one waits for arrive in order, and others do not wait for them', async (t) => {
  const { url, got } = await slowService(t);
  const input = new InputQueue({ frontendUrl: url });
  const shared = new Float32Array([1]);
  await Promise.all([0, 1, 2, 3, 4].map((i) => input.enqueue(i === 2 ? 'other' : 'a', longer(i))));
  const sizes = got.get('a') ?? [];
  assert.equal(sizes.length, 4);
  assert.deepEqual(
    sizes,
    sizes.toSorted((one, other) => one - other),
  );
  // A record that waits for its turn keeps the values of its call.
  const pending = [input.enqueue('b', { x: shared }), input.enqueue('b', { x: shared })];
  shared[0] = 2;
  await Promise.all(pending);
});

test('of several records under one uri in enqueueMany the last one is the last', async (t) => {
  const { url, got } = await slowService(t);
  const input = new InputQueue({ frontendUrl: url });
  await input.enqueueMany([0, 1, 2, 3].map((i) => ({ uri: 'a', inputs: longer(i) })));
  const sizes = got.get('a') ?? [];
  assert.deepEqual(
    sizes,
    sizes.toSorted((one, other) => one - other),
  );
});

test('a call that waits for its turn ends at its time limit, and its record is not sent later', async (t) => {
  const received: string[] = [];
  const server = createServer((request) => void received.push(request.url ?? ''));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const input = new InputQueue({ frontendUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  const first = input.enqueue('a', longer(0), { timeoutMs: 300 });
  const second = input.enqueue('a', longer(1), { timeoutMs: 50 });
  await assert.rejects(second, (error: ServingError) => error.code === 'timeout' && error.uri === 'a');
  await assert.rejects(first, { code: 'timeout' });
  await delay(50);
  assert.equal(received.length, 1);
});
