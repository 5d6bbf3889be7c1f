/** The client of the SDK against the routes of a worker's service, and against services that are none. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { encodeFrame } from '../../../lib/codecs/values/frame.ts';
import { EncodedImage, Tuple, type WorkerValue } from '../../../lib/contract/worker-values.ts';
import { WKRClient, type WKRResult } from '../../../sdk/worker-client.ts';
import { until } from '../../support/until.ts';
import { FRAME_TYPE, workerService } from '../../support/worker-service.ts';

const echo = (value: unknown) => value;
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
const valuesOf = (results: readonly WKRResult[]) => results.map(({ value }) => value);

test('every kind of value comes back as it was sent', async (t) => {
  const { url, requests } = await workerService(t, echo);
  const client = new WKRClient({ url });
  const values: WorkerValue[] = [
    null,
    -2.5,
    Number.NaN,
    -0,
    10n ** 40n,
    'é\0😀',
    Uint8Array.of(0, 255),
    new Date(0),
    Tuple.from([1, Tuple.from(['x'])]),
    new Set<WorkerValue>([1, 'a', null]),
    { 'a b': { $t: 1 }, n: [[]] },
    { dtype: 'float64', shape: [1, 3], data: Float64Array.of(-0, 5e-324, Infinity) },
    { dtype: 'int64', shape: [], data: BigInt64Array.of(-1n) },
    { dtype: 'string', shape: [2], data: ['', 'é'] },
    new EncodedImage(Uint8Array.of(1, 2)),
    'x'.repeat(3_000_000),
  ];
  for (const value of values) assert.deepEqual(await client.encode(value), value);
  assert.deepEqual(requests.slice(0, 3), ['GET /status/server', 'POST /encode', 'POST /encode']);
});

test('twelve results come in the order of their ids, in whichever order they finished', async (t) => {
  const { url } = await workerService(t, async (value) => {
    await new Promise((resolve) => setTimeout(resolve, (12 - Number(value)) * 10));
    return value;
  });
  const client = new WKRClient({ url });
  const send = async () => {
    const ids: string[] = [];
    for (const i of numbers(12)) ids.push(await client.encode(i, { blocking: false }));
    return ids;
  };
  const ids = await send();
  assert.deepEqual(
    ids,
    numbers(12).map((i) => String(i + 1)),
  );
  const { identity, status } = client;
  assert.deepEqual(status, { identity, url, timeoutMs: 300_000, numRequest: 12, pendingRequest: ids });
  assert.deepEqual(
    await client.fetchAll(),
    numbers(12).map((value) => ({ id: String(value + 1), value })),
  );
  assert.deepEqual(await client.fetchAll(), []);
  await send();
  const fetched: WKRResult[] = [];
  for await (const result of client.fetch()) fetched.push(result);
  assert.deepEqual(new Set(valuesOf(fetched)), new Set(numbers(12)));
  assert.equal(await client.encode(1, { blocking: false, targetRequestId: 'b' }), 'b');
  await client.encode(0, { blocking: false, targetRequestId: '7' });
  assert.deepEqual(await client.fetchAll(), [
    { id: '7', value: 0 },
    { id: 'b', value: 1 },
  ]);
});

test('an item that failed is thrown, or a result with its error', async (t) => {
  const { url } = await workerService(t, (value) => {
    if (value === 1) throw Object.assign(new Error('Error: one'), { code: 'model_failed' });
    return value;
  });
  const client = new WKRClient({ url });
  await assert.rejects(client.encode(1), { code: 'model_failed', message: 'Error: one' });
  await assert.rejects(client.encode({ a: [1, Symbol('x') as unknown as WorkerValue] }), {
    name: 'TypeError',
    message: 'value.a[1]: a symbol cannot be sent',
  });
  await assert.rejects(client.encode(new Uint8Array(33 * 2 ** 20)), {
    code: 'too_large',
    message: /^value: 346\d+ bytes are over/,
  });
  const results: WKRResult[] = [];
  for await (const result of client.encodeAsync([0, 1, (() => 1) as unknown as WorkerValue, 2]))
    results.push(result);
  assert.deepEqual(
    results
      .toSorted((a, b) => Number(a.id) - Number(b.id))
      .map(({ value, error }) => error?.message ?? value),
    [0, 'Error: one', 'value: a function cannot be sent', 2],
  );
  assert.deepEqual(client.status.pendingRequest, []);
});

test('encodeAsync sends while it receives, to its end, and throws what its iterator threw', async (t) => {
  const { url } = await workerService(t, echo);
  const client = new WKRClient({ url });
  let pulled = 0;
  let end = () => {};
  async function* items(count: number, error?: Error) {
    try {
      for (const i of numbers(count)) {
        pulled++;
        yield i;
      }
    } finally {
      end();
    }
    if (error) throw error;
  }
  const read = async (results: AsyncIterable<WKRResult>, into: WorkerValue[] = []) => {
    for await (const { value } of results) into.push(value);
    return new Set(into);
  };
  assert.deepEqual(await read(client.encodeAsync(items(300))), new Set(numbers(300)));
  pulled = 0;
  assert.deepEqual(await read(client.encodeAsync(items(9), { maxNumBatch: 3 })), new Set([0, 1, 2]));
  assert.equal(pulled, 3);
  const isEnded = new Promise<void>((resolve) => {
    end = resolve;
  });
  for await (const _ of client.encodeAsync(items(10_000))) break;
  await isEnded;
  assert.ok(pulled < 1_000, `${pulled} were pulled`);
  const got: WorkerValue[] = [];
  const failing = new WKRClient({ url });
  await assert.rejects(read(failing.encodeAsync(items(3, new Error('mine'))), got), { message: 'mine' });
  assert.deepEqual(new Set(got), new Set([0, 1, 2]));
});

test('who stops reading ends the sending, also while it waits for room', { timeout: 30_000 }, async (t) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  t.after(() => release());
  const { url } = await workerService(t, async (value) => {
    if (value !== 0) await held;
    return value;
  });
  const client = new WKRClient({ url });
  t.after(() => client.close());
  const { promise: isEnded, resolve: end } = Promise.withResolvers<void>();
  async function* items() {
    try {
      for (let i = 0; ; i++) yield i;
    } finally {
      end();
    }
  }
  for await (const { value } of client.encodeAsync(items())) {
    assert.equal(value, 0);
    await until(() => client.status.pendingRequest.length === 256);
    // The last of them is accepted.
    await new Promise((resolve) => setTimeout(resolve, 200));
    break;
  }
  await isEnded;
});

test('clients with one identity all receive what is theirs, and count alike', async (t) => {
  const { url } = await workerService(t, echo);
  const [first, second] = [
    new WKRClient({ url, identity: 'same' }),
    new WKRClient({ url, identity: 'same' }),
  ];
  for (const i of numbers(12)) {
    await first.encode(['first', i], { blocking: false });
    await second.encode(['second', i], { blocking: false });
  }
  const [ofSecond, ofFirst] = await Promise.all([second.fetchAll(), first.fetchAll()]);
  assert.deepEqual(
    valuesOf(ofSecond),
    numbers(12).map((i) => ['second', i]),
  );
  assert.deepEqual(
    valuesOf(ofFirst),
    numbers(12).map((i) => ['first', i]),
  );
});

test('a request that was refused is waited for when it does not block, and an error otherwise', async (t) => {
  let busy = 0;
  const { url, requests } = await workerService(t, echo, {
    refuse: ({ method }) => (method === 'POST' && busy-- > 0 ? 429 : undefined),
  });
  const client = new WKRClient({ url });
  busy = 1;
  await assert.rejects(client.encode(1), { code: 'rate_limited', message: 'refused with 429' });
  busy = 2;
  await client.encode(2, { blocking: false });
  assert.deepEqual(valuesOf(await client.fetchAll()), [2]);
  assert.equal(requests.filter((request) => request === 'POST /encode').length, 4);
});

test('the token is sent, and the protocol and its version are checked once', async (t) => {
  const { url, requests } = await workerService(t, echo, {
    refuse: ({ headers }) => (headers.authorization === 'Bearer 0123456789abcdef' ? undefined : 401),
    status: { protocol: 'npy' },
  });
  const token = '0123456789abcdef';
  const array = { dtype: 'uint8', shape: [1], data: Uint8Array.of(7) } as const;
  await assert.rejects(new WKRClient({ url }).encode(1), { code: 'unauthorized' });
  await assert.rejects(new WKRClient({ url, token }).encode(1), /speaks the protocol "npy", this client obj/);
  const client = new WKRClient({ url, token, protocol: 'numpy' });
  assert.equal((await client.serverStatus())['server_version'], '0.1.0');
  assert.deepEqual(await Promise.all([client.encode(array), client.encode(array)]), [array, array]);
  await assert.rejects(client.encode([1]), { name: 'TypeError', message: /npy sends tensors/ });
  assert.equal(requests.filter((request) => request === 'GET /status/server').length, 4);
  const other = await workerService(t, echo, { status: { wkr_protocol: 2 } });
  await assert.rejects(new WKRClient({ url: other.url }).encode(1), /version 2 of the frames, this client 1/);
  assert.equal(await new WKRClient({ url: other.url, checkVersion: false }).encode(1), 1);
});

test('a silent service, a signal and close each end a call, and what was pending can still be fetched', async (t) => {
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  const { url, server } = await workerService(t, async (value) => {
    await isReleased;
    return value;
  });
  const short = new WKRClient({ url, timeoutMs: 300 });
  await assert.rejects(short.encode(1), { code: 'timeout' });
  await short.encode(1, { blocking: false });
  await assert.rejects(short.fetchAll(), { code: 'timeout' });
  const client = new WKRClient({ url });
  await client.encode('kept', { blocking: false });
  for (const call of [
    (signal: AbortSignal) => client.encode(1, { signal }),
    (signal: AbortSignal) => client.fetchAll({ signal }),
  ]) {
    const stop = new AbortController();
    const ended = assert.rejects(call(stop.signal), /enough/);
    const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
    stop.abort(new Error('enough'));
    await ended;
    // It did not end because the service answered.
    assert.equal(response.writableEnded, false);
  }
  release();
  assert.deepEqual(valuesOf(await client.fetchAll()), ['kept']);
  const ended = assert.rejects(client.encode(2), /the client is closed/);
  client.close();
  await ended;
  await assert.rejects(client.encode(2), /the client is closed/);
});

test('a port without a service is an error, and so is an address that is none', async () => {
  await assert.rejects(new WKRClient({ ip: '0.0.0.0', port: 1 }).encode(1), { code: 'queue_unavailable' });
  assert.equal(new WKRClient({ ip: '0.0.0.0', port: 1 }).status.url, 'http://127.0.0.1:1');
  for (const options of [
    { url: 'ftp://x' },
    { url: 'http://a:b@c' },
    { identity: 'a/b' },
    { timeoutMs: 0 },
    { token: 'short' },
  ])
    assert.throws(() => new WKRClient(options), { code: 'bad_config' });
});

type Hostile = readonly [header: object, blocks?: readonly Uint8Array[]];
const HOSTILE: Readonly<Record<string, (id: string) => Hostile>> = {
  'another type': (id) => [{ type: 'run', id, outcome: { value: 1 } }],
  'the answer of another': () => [{ type: 'encoded', id: '2', outcome: { value: 1 } }],
  'no outcome': (id) => [{ type: 'encoded', id, outcome: null }],
  'value and error': (id) => [
    { type: 'encoded', id, outcome: { value: 1, error: { code: 'a', message: 'b' } } },
  ],
  'an error without a message': (id) => [{ type: 'encoded', id, outcome: { error: { code: 'a' } } }],
  'a block that is not there': (id) => [{ type: 'encoded', id, outcome: { value: { $t: 'bytes', b: 1 } } }],
  'a block of no value': (id) => [{ type: 'encoded', id, outcome: { value: 1 } }, [Uint8Array.of(1)]],
};

test('malformed answers are errors', async (t) => {
  const answers: ((id: string) => Uint8Array)[] = [
    () => Buffer.from('hello'),
    () => Buffer.alloc(0),
    ...Object.values(HOSTILE).map(
      (make) => (id: string) => Buffer.concat(encodeFrame(...(make(id) as [never, never]))),
    ),
  ];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const id = /"id":"([^"]+)"/.exec(Buffer.concat(chunks).toString('latin1'))?.[1] ?? '';
      response.writeHead(200, { 'content-type': FRAME_TYPE });
      response.end(answers.shift()?.(id));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  while (answers.length > 0) {
    const client = new WKRClient({ url, checkVersion: false });
    await assert.rejects(client.encode(1), {
      code: 'internal',
      message: /^the answer of the service cannot be read: /,
    });
  }
});

test('a page, a redirect and an answer over the limit are errors', async () => {
  const ask = (response: Response) =>
    new WKRClient({ url: 'http://service', checkVersion: false, fetch: async () => response }).encode(1);
  await assert.rejects(
    ask(new Response('hi', { headers: { 'content-type': 'text/html' } })),
    /is it the url/,
  );
  await assert.rejects(ask(new Response(null, { status: 302, headers: { location: 'http://elsewhere' } })), {
    code: 'bad_request',
  });
  const long = new Response(new Uint8Array(2 ** 25 + 1), { headers: { 'content-type': FRAME_TYPE } });
  await assert.rejects(ask(long), { code: 'too_large' });
  const envelope = { error_code: 503, error_message: 'no worker', data: null, code: 'model_unavailable' };
  await assert.rejects(ask(new Response(JSON.stringify(envelope), { status: 503 })), {
    code: 'model_unavailable',
    message: 'no worker',
  });
});
