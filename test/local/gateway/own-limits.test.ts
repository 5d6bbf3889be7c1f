/** Routes of a single machine with a limit of their own, and the envelope of the worker service around the gateway's errors. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Gateway, startGateway } from '../../../local/gateway/gateway.ts';

const MiB = 1024 * 1024;
let gateway: Gateway;

before(async () => {
  const handler = async (event: { readonly body?: string }) => ({
    statusCode: 200,
    body: event.body ?? '',
    isBase64Encoded: true,
  });
  gateway = await startGateway({
    port: 0,
    token: 'a-token-of-sixteen-letters',
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    routes: [
      { method: 'POST', path: '/large', handler, maxBytes: 12 * MiB, hasEnvelope: true },
      { method: 'POST', path: '/usual', handler },
      { method: 'POST', path: '/fails', handler: () => Promise.reject(new Error('no')), hasEnvelope: true },
    ],
  });
});
after(() => gateway.close());

const send = (path: string, bytes: number, headers: Record<string, string> = {}) =>
  fetch(gateway.url + path, {
    method: 'POST',
    body: new Uint8Array(bytes),
    headers: {
      'content-type': 'application/octet-stream',
      authorization: 'Bearer a-token-of-sixteen-letters',
      ...headers,
    },
  });

test('a handler has the time of the gateway, 30 s at most, or less where its route says so', async (t) => {
  const handler = async (_: unknown, context: { getRemainingTimeInMillis(): number }) => ({
    statusCode: 200,
    body: String(context.getRemainingTimeInMillis()),
  });
  for (const [timeoutMs, usualMs] of [
    [600_000, 30_000],
    [undefined, 30_000],
    [20_000, 20_000],
  ] as const) {
    const opened = await startGateway({
      port: 0,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      ...(timeoutMs && { timeoutMs }),
      routes: [
        { method: 'GET', path: '/usual', handler },
        { method: 'GET', path: '/short', handler, timeoutMs: 10_000 },
      ],
    });
    t.after(() => opened.close());
    for (const [path, ms] of [
      ['/usual', usualMs],
      ['/short', 10_000],
    ] as const) {
      const left = Number(await (await fetch(opened.url + path)).text());
      assert.ok(left > ms - 5_000 && left <= ms, `${path} ${timeoutMs}: ${left}`);
    }
  }
});

test('a route with a limit of its own takes and answers so much, and others do not', async () => {
  const response = await send('/large', 12 * MiB);
  assert.deepEqual([response.status, (await response.arrayBuffer()).byteLength], [200, 12 * MiB]);
  assert.equal((await send('/large', 12 * MiB + 1)).status, 413);
  assert.equal((await send('/usual', 5 * MiB)).status, 413);
});

test('the errors of the gateway itself have the envelope where a route asks for it', async () => {
  for (const [path, bytes, headers, status, code] of [
    ['/large', 13 * MiB, {}, 413, 'too_large'],
    ['/large', 1, { authorization: 'Bearer no' }, 401, 'unauthorized'],
    ['/large', 1, { origin: 'https://a.example' }, 403, 'unauthorized'],
    ['/fails', 1, {}, 500, 'internal'],
  ] as const) {
    const response = await send(path, bytes, headers);
    const body = (await response.json()) as Record<string, unknown>;
    const { error_message: message, ...rest } = body;
    assert.deepEqual([response.status, rest], [status, { error_code: status, data: null, code }]);
    assert.equal(typeof message, 'string');
  }
  const usual = (await (await send('/usual', 11 * MiB)).json()) as Record<string, unknown>;
  assert.deepEqual(Object.keys(usual), ['message', 'error']);
});
