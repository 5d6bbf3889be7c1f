/** What is around a body: through the handlers, and on a socket through the local gateway. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type Gateway, startGateway } from '../../local/gateway/gateway.ts';
import { assertRefusal, watchMemory } from './hostile/cases.ts';
import { type Endpoint, predictEndpoint, predictHandler, predictionsEndpoint } from './hostile/endpoints.ts';
import { Models } from './hostile/models.ts';
import { ENVELOPES, GOOD_ENVELOPES, GOOD_SOCKET, SOCKET } from './hostile/tables/envelopes.ts';

async function assertEnvelopes(t: TestContext, endpoint: Endpoint, served: number): Promise<void> {
  const assertMemory = watchMemory();
  for (const [name, headers, body, code, message] of ENVELOPES) {
    await t.test(name, async () => assertRefusal(await endpoint(body(), { headers }), code, message));
  }
  for (const [name, headers, body] of GOOD_ENVELOPES) {
    await t.test(name, async () => {
      const answer = await endpoint(body(), { headers });
      assert.equal(answer.status, served, String(answer.error));
    });
  }
  assertMemory();
}

test('POST /predict refuses what is encoded wrongly or too large, and serves the rest', async (t) => {
  await assertEnvelopes(t, predictEndpoint(await new Models(t).runner('pair')), 200);
});

test('POST /predictions refuses what is encoded wrongly or too large, and takes the rest', async (t) => {
  const { endpoint, sent } = predictionsEndpoint();
  await assertEnvelopes(t, endpoint, 202);
  assert.equal(sent.length, GOOD_ENVELOPES.length);
});

/** Everything the gateway says until it closes the connection. */
async function talk(gateway: Gateway, text: string): Promise<{ status: number; body: string }> {
  const socket = connect(gateway.port, '127.0.0.1').setEncoding('latin1');
  let reply = '';
  socket.on('data', (chunk: string) => {
    reply += chunk;
    // A refused request may leave the connection open for its body, which never comes.
    if (/\r\n\r\n.*\}$/s.test(reply)) socket.end();
  });
  socket.on('error', () => undefined);
  socket.write(text, 'latin1');
  await once(socket, 'close');
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(reply)?.[1]),
    body: reply.slice(reply.indexOf('\r\n\r\n') + 4),
  };
}

test('the gateway answers every broken request with its status, and the next one is served', async (t) => {
  const handler = predictHandler(await new Models(t).runner('pair'));
  const { handle } = predictionsEndpoint();
  const gateway = await startGateway({
    port: 0,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    routes: [
      { method: 'POST', path: '/predict', handler },
      { method: 'POST', path: '/predictions', handler: handle },
    ],
    closeTimeoutMs: 500,
  });
  t.after(() => gateway.close());
  for (const [name, request, status, body] of SOCKET) {
    await t.test(name, async () => {
      const answer = await talk(gateway, request());
      assert.equal(answer.status, status, answer.body);
      assert.match(answer.body, body);
      assert.ok(answer.body.length < 1000);
    });
  }
  for (const [name, request] of GOOD_SOCKET) {
    await t.test(name, async () => {
      const { status, body } = await talk(gateway, request());
      assert.equal(status, 200, body);
    });
  }
});
