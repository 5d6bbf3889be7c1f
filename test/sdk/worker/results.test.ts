/** What the client of a worker asks its service for, and when, with answers that a function gives. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { encodeFrame } from '../../../lib/codecs/values/frame.ts';
import { setVariables } from '../../../lib/contract/variables.ts';
import type { WorkerValue } from '../../../lib/contract/worker-values.ts';
import type { Fetch } from '../../../sdk/fetch.ts';
import { byNumber, PendingResults } from '../../../sdk/wkr/results.ts';
import { Service, serviceUrl } from '../../../sdk/wkr/service.ts';
import { WKRClient, type WKRClientOptions } from '../../../sdk/worker-client.ts';

type Answer = Response | Error;
const TYPE = { 'content-type': 'application/x-wkr' };
const page = (cursor: unknown, results: unknown = []) =>
  new Response(Buffer.concat(encodeFrame({ type: 'results', cursor, results })), { headers: TYPE });
const result = (id: string, value: unknown = id) => ({ id, outcome: { value } });
const json = (body: unknown, status = 200) => Response.json(body, { status });
const LOST = new TypeError('fetch failed');

/** A service that gives these answers one after the other, the last one again and again. */
function answering(...answers: readonly (Answer | (() => Answer))[]) {
  const asked: string[] = [];
  const inits: RequestInit[] = [];
  const send: Fetch = async (url, init) => {
    asked.push(url.replace('http://service', ''));
    inits.push(init);
    const next = answers[Math.min(asked.length, answers.length) - 1];
    const answer = typeof next === 'function' ? next() : next;
    if (answer instanceof Response) return answer;
    throw answer;
  };
  return { asked, inits, send };
}

function pending({ send }: { send: Fetch }, timeoutMs = 60_000) {
  const options = { url: 'http://service', protocol: 'obj', send, mustCheck: false } as const;
  return new PendingResults(new Service(options), 'me', timeoutMs);
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test('results are asked for from where the last answer ended, for the whole seconds that are left and 20 at most', async () => {
  for (const [timeoutMs, wait] of [
    [600_000, 20],
    [20_999, 20],
    [5_900, 5],
    [900, 0],
  ] as const) {
    const service = answering(page(7, [result('a--m'), result('other')]), page(9, [result('b--m')]));
    const results = pending(service, timeoutMs);
    for (const id of ['a', 'b']) await results.during(`${id}--m`, id, async () => {});
    assert.deepEqual(results.ids, ['a', 'b']);
    assert.equal(results.has('a--m'), true);
    assert.deepEqual(await all(results.take()), [
      { id: 'a', value: 'a--m' },
      { id: 'b', value: 'b--m' },
    ]);
    assert.deepEqual(service.asked, [`/results/me?after=0&wait=${wait}`, `/results/me?after=7&wait=${wait}`]);
    assert.deepEqual([results.ids, results.has('a--m')], [[], false]);
  }
});

test('a service that does not wait is asked every 250 ms', async (t: TestContext) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const service = answering(
    () => page(0),
    () => page(1, [result('other')]),
    () => page(1),
    () => page(2, [result('a--m')]),
  );
  const results = pending(service);
  await results.during('a--m', 'a', async () => {});
  const taken = all(results.take());
  const settled = async () => {
    for (let i = 0; i < 20; i++) await turn();
    return service.asked.length;
  };
  assert.equal(await settled(), 1);
  t.mock.timers.tick(250);
  // The second answer had something, and so the third is asked for at once.
  assert.equal(await settled(), 3);
  t.mock.timers.tick(250);
  assert.deepEqual(await taken, [{ id: 'a', value: 'a--m' }]);
});

test('answers that say no place, one before the last or no results are malformed', async () => {
  for (const bad of [
    page(-1),
    page('1'),
    page(1.5),
    page(4),
    page(6, {}),
    page(6, [null]),
    page(6, [1]),
    page(6, [{}]),
  ]) {
    const results = pending(answering(page(5, [result('a--m')]), bad));
    for (const id of ['a', 'b']) await results.during(`${id}--m`, id, async () => {});
    const found: string[] = [];
    await assert.rejects(
      async () => {
        for await (const { id } of results.take()) found.push(id);
      },
      { code: 'internal', message: /cannot be read: (the results|a result has no id)$/ },
    );
    assert.deepEqual(found, ['a']);
  }
});

test('a request that was refused is not pending, and a result may come before its request has ended', async () => {
  const service = answering(page(1, [result('a--m'), result('b--m')]));
  const results = pending(service);
  await assert.rejects(
    results.during('no--m', 'no', async () => {
      assert.deepEqual(results.ids, ['no']);
      throw LOST;
    }),
    LOST,
  );
  assert.deepEqual(results.ids, []);
  await results.during('a--m', 'a', async () => {});
  const taken = results.take();
  await results.during('b--m', 'b', async () => {
    assert.equal((await taken.next()).value?.id, 'a');
  });
  // It is not asked for again.
  assert.deepEqual((await all(taken)).concat(await all(results.take())), [{ id: 'b', value: 'b--m' }]);
  assert.equal(service.asked.length, 1);
});

test('who sends waits while there are as many results as may be, and results that are given back come first', async () => {
  const results = pending(answering(page(0)));
  const sending = { isDone: false, isStopped: false };
  for (const id of ['a', 'b']) results.add({ id, value: null });
  let hasRoom = false;
  const room = results.room(2, sending).then(() => (hasRoom = true));
  await turn();
  assert.equal(hasRoom, false);
  const taken = results.take(sending);
  assert.equal((await taken.next()).value?.id, 'b');
  await room;
  results.add({ id: 'c', value: null });
  const stopped = results.room(2, sending);
  sending.isStopped = true;
  results.wake();
  await stopped;
  assert.equal((await taken.next()).value?.id, 'c');
  assert.equal((await taken.next()).value?.id, 'a');
  const last = taken.next();
  sending.isDone = true;
  results.wake();
  assert.equal((await last).done, true);
  await assert.rejects(all(results.take(sending, { signal: AbortSignal.abort(LOST) })), LOST);
});

test('who takes results waits for what is being sent, and is woken by what comes', async () => {
  const results = pending(answering(page(1, [result('a--m')])));
  const { promise: isSent, resolve: send } = Promise.withResolvers<void>();
  const during = results.during('a--m', 'a', () => isSent);
  const sending = { isDone: false, isStopped: false };
  // What is being sent takes room too.
  let hasRoom = false;
  const room = results.room(1, sending).then(() => (hasRoom = true));
  const taken = results.take(sending);
  const first = taken.next();
  await turn();
  assert.equal(hasRoom, false);
  send();
  await during;
  assert.deepEqual((await first).value, { id: 'a', value: 'a--m' });
  const second = taken.next();
  await room;
  results.add({ id: 'b', value: null });
  assert.equal((await second).value?.id, 'b');
});

test('two ids compare as numbers, and others behind them', () => {
  for (const [a, b, expected] of [
    ['2', '10', -1],
    ['10', '2', 1],
    ['a', '10', 1],
    ['10', 'a', -1],
    ['a', 'b', -1],
    ['b', 'a', 1],
  ] as const)
    assert.equal(byNumber({ id: a, value: null }, { id: b, value: null }), expected, `${a} ${b}`);
});

test('a read is repeated once after the network failed, and nothing else is', async () => {
  const service = (...answers: readonly Answer[]) => {
    const { send, asked } = answering(...answers);
    const options = { url: 'http://service', protocol: 'obj', send, mustCheck: false } as const;
    return { asked, service: new Service(options) };
  };
  const endAt = performance.now() + 60_000;
  const again = service(LOST, json({ a: 1 }));
  assert.deepEqual(await again.service.status(endAt), { a: 1 });
  assert.deepEqual(again.asked, ['/status/server', '/status/server']);
  const gone = service(LOST);
  await assert.rejects(gone.service.status(endAt), { code: 'queue_unavailable' });
  assert.equal(gone.asked.length, 2);
  const failed = service(json({ code: 'queue_unavailable' }, 503), json({}));
  await assert.rejects(failed.service.status(endAt), { code: 'queue_unavailable' });
  assert.equal(failed.asked.length, 1);
  const posted = service(LOST);
  await assert.rejects(posted.service.post(Buffer.of(), {}, endAt), { code: 'queue_unavailable' });
  assert.equal(posted.asked.length, 1);
});

test('a call whose time is over still has a millisecond', async () => {
  const send: Fetch = () => new Promise(() => undefined);
  const service = new Service({ url: 'http://service', protocol: 'obj', send, mustCheck: false });
  await assert.rejects(service.status(performance.now() - 9), {
    code: 'timeout',
    message: 'http://service/status/server did not answer in 1 ms',
  });
});

test('a service whose status was not to be had is asked again, and no more once it was', async () => {
  const status = json({ protocol: 'obj', wkr_protocol: 1 });
  const { asked, send } = answering(json({}, 500), status, () => json({}, 413));
  const client = new WKRClient({ url: 'http://service', fetch: send });
  await assert.rejects(client.encode(1), { code: 'internal' });
  for (let i = 0; i < 2; i++) await assert.rejects(client.encode(1), { code: 'too_large' });
  assert.deepEqual(asked, ['/status/server', '/status/server', '/encode', '/encode']);
});

test('who sends nothing gets nothing, and what the items throw', async () => {
  const client = new WKRClient({ url: 'http://service', fetch: answering(LOST).send });
  assert.deepEqual(await all(client.encodeAsync([])), []);
  const unsendable = Symbol('x') as unknown as WorkerValue;
  const [failed, ...more] = await all(client.encodeAsync([unsendable]));
  assert.deepEqual([failed?.id, failed?.value, failed?.error?.name, more], ['1', null, 'TypeError', []]);
  async function* items() {
    yield unsendable;
    throw LOST;
  }
  await assert.rejects(all(client.encodeAsync(items())), LOST);
});

test('the status is what the envelope holds, or the answer itself', async () => {
  for (const [body, expected] of [
    [{ error_code: 0, data: { a: 1 } }, { a: 1 }],
    [{ data: { a: 1 } }, { data: { a: 1 } }],
    [
      { error_code: 0, data: 1 },
      { error_code: 0, data: 1 },
    ],
  ] as const) {
    const client = new WKRClient({ url: 'http://service', fetch: answering(json(body)).send });
    assert.deepEqual(await client.serverStatus(), expected);
  }
  const client = new WKRClient({ url: 'http://service', fetch: answering(json([])).send });
  await assert.rejects(client.serverStatus(), { code: 'internal', message: /expected a JSON object$/ });
});

test('an address is http or https with a host, without who calls, a question or slashes at its end', () => {
  assert.equal(serviceUrl('https://a.example/b//'), 'https://a.example/b');
  for (const text of [
    '',
    'a.example',
    'ftp://a',
    'http://',
    'http://a@b',
    'http://a?b',
    'http://a#b',
    'http://a:x',
  ])
    assert.throws(() => serviceUrl(text), { code: 'bad_config' }, text);
});

test('the addresses of all interfaces are this machine, and one of IPv6 has brackets', () => {
  for (const [ip, host] of [
    [undefined, 'localhost'],
    ['0.0.0.0', '127.0.0.1'],
    ['*', '127.0.0.1'],
    ['::', '[::1]'],
    ['fe80::1', '[fe80::1]'],
    ['10.0.0.1', '10.0.0.1'],
  ] as const) {
    const client = new WKRClient({ ...(ip !== undefined && { ip }), port: 7 });
    assert.equal(client.status.url, `http://${host}:7`);
  }
  assert.equal(new WKRClient().status.url, 'http://localhost:5555');
  assert.equal(new WKRClient().status.timeoutMs, 300_000);
});

test('the token of the variable is sent unless another way to say who calls is given', async (t) => {
  const [own, general, given] = ['own-token-of-wkr-1', 'token-of-the-sdk-2', 'token-of-options-3'];
  t.after(() => setVariables({ WKR_TOKEN: undefined, CLUSTER_SERVING_TOKEN: undefined }));
  const sentBy = async (options: WKRClientOptions) => {
    const { inits, send } = answering(json({}));
    await new WKRClient({ url: 'http://service', fetch: send, ...options }).serverStatus();
    const headers = new Headers(inits[0]?.headers);
    return headers.get('authorization') ?? headers.get('x-api-key');
  };
  setVariables({ WKR_TOKEN: own, CLUSTER_SERVING_TOKEN: general });
  assert.equal(await sentBy({}), `Bearer ${own}`);
  assert.equal(await sentBy({ token: given }), `Bearer ${given}`);
  assert.equal(await sentBy({ apiKey: 'key' }), 'key');
  assert.equal(await sentBy({ auth: 'none' }), null);
  setVariables({ WKR_TOKEN: '' });
  assert.equal(await sentBy({}), `Bearer ${general}`);
});

test('an identity, a time limit and an id have their bounds', async () => {
  const { send } = answering(LOST);
  const made = (options: WKRClientOptions) =>
    new WKRClient({ url: 'http://service', fetch: send, ...options });
  for (const identity of ['a', 'a'.repeat(64), 'A.b_c-1'])
    assert.equal(made({ identity }).identity, identity);
  for (const identity of ['', 'a'.repeat(65), 'a b'])
    assert.throws(() => made({ identity }), { code: 'bad_config', message: /^identity: / });
  for (const timeoutMs of [0.5, 2 ** 31 - 1]) assert.equal(made({ timeoutMs }).status.timeoutMs, timeoutMs);
  for (const timeoutMs of [0, -1, 2 ** 31, Number.NaN])
    assert.throws(() => made({ timeoutMs }), { code: 'bad_config', message: /^timeoutMs: / });
  const client = made({ checkVersion: false });
  for (const targetRequestId of ['', 'a'.repeat(55), 'a b'])
    await assert.rejects(client.encode(1, { targetRequestId }), { message: /^targetRequestId: expected/ });
  await assert.rejects(client.encode(1, { targetRequestId: 'a'.repeat(54) }), { code: 'queue_unavailable' });
});

test('an id that is pending is not sent twice', async () => {
  const client = new WKRClient({
    url: 'http://service',
    checkVersion: false,
    fetch: answering(() => new Response('', { status: 202 })).send,
  });
  await client.encode(1, { blocking: false, targetRequestId: 'a' });
  await assert.rejects(client.encode(1, { blocking: false, targetRequestId: 'a' }), {
    code: 'bad_config',
    message: 'targetRequestId: a is pending',
  });
  assert.deepEqual(client.status.pendingRequest, ['a']);
});
