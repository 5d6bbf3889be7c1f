/** One request over HTTP: which answers are returned, and which error each other one is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf, type Fetch, postJson, request, requestBytes } from '../../sdk/fetch.ts';

const URL = 'https://api.example/predict';
const LIMIT = 64 * 1024 * 1024;
const bytesOf = (text: string) => new TextEncoder().encode(text);
const answer = (status: number, text: string) => {
  const ok = status >= 200 && status < 300;
  return { status, ok, headers: new Headers(), bytes: bytesOf(text) };
};

test('an answer without a code of ours has that of its status', () => {
  for (const [status, code] of [
    [400, 'bad_request'],
    [401, 'unauthorized'],
    [403, 'unauthorized'],
    [404, 'bad_request'],
    [413, 'too_large'],
    [429, 'rate_limited'],
    [499, 'bad_request'],
    [500, 'internal'],
    [502, 'internal'],
    [503, 'queue_unavailable'],
    [504, 'timeout'],
  ] as const)
    for (const text of ['', 'no JSON', '{"code":"unheard_of"}', '{"message":"m"}'])
      assert.equal(errorOf(URL, answer(status, text)).code, code, `${status} ${text}`);
  assert.equal(errorOf(URL, answer(500, '{"code":"model_failed"}')).code, 'model_failed');
});

test('an error says the first text that there is, and who may call where the gateway says no more than Forbidden', () => {
  const message = (status: number, body: object) =>
    errorOf(URL, answer(status, JSON.stringify(body))).message;
  assert.equal(message(500, { error: 'a', error_message: 'b', message: 'c' }), 'a');
  assert.equal(message(500, { error: 1, error_message: 'b', message: 'c' }), 'b');
  assert.equal(message(500, { message: 'c' }), 'c');
  assert.equal(message(500, {}), `${URL} answered 500`);
  assert.match(message(403, { message: 'Forbidden' }), /^Forbidden \(https:.*\): say who calls/);
  assert.match(message(401, {}), /answered 401 \(https:.*\): say who calls/);
  assert.equal(message(403, { error: 'its own' }), 'its own');
  assert.equal(message(403, { error_message: 'its own' }), 'its own');
  assert.equal(message(400, { message: 'm' }), 'm');
});

/** Gives these answers one after the other. */
function answering(...answers: readonly (Response | Error)[]) {
  const sent: { readonly url: string; readonly init: RequestInit }[] = [];
  const send: Fetch = async (url, init) => {
    sent.push({ url, init });
    const next = answers[sent.length - 1];
    if (next instanceof Response) return next;
    throw next;
  };
  return { sent, send };
}
const redirect = (status: number) =>
  new Response('{"a":1}', { status, headers: { location: 'https://elsewhere.example/' } });

test('a 303 is an answer where it was asked for, and every other redirect is followed', async () => {
  const manual = { redirect: 'manual' } as const;
  const seen = answering(redirect(303));
  const { status, location, body } = await request(URL, manual, 1_000, undefined, seen.send);
  assert.deepEqual([status, location, body], [303, 'https://elsewhere.example/', { a: 1 }]);
  const moved = answering(redirect(307), Response.json('there'));
  assert.equal((await request(URL, manual, 1_000, undefined, moved.send)).body, 'there');
  assert.deepEqual(
    moved.sent.map(({ init }) => init.redirect),
    ['manual', 'follow'],
  );
  for (const [init, response] of [
    [{}, redirect(303)],
    [manual, new Response('', { status: 303 })],
    [manual, new Response('', { status: 400, headers: { location: '/' } })],
  ] as const)
    await assert.rejects(request(URL, init, 1_000, undefined, answering(response).send), {
      code: 'bad_request',
    });
  const hidden = new Response('');
  Object.defineProperty(hidden, 'type', { value: 'opaqueredirect' });
  await assert.rejects(request(URL, {}, 1_000, undefined, answering(hidden).send), {
    code: 'bad_config',
    message: /^https:\/\/api\.example\/predict redirects, which browsers hide/,
  });
});

test('a 404 without a code is the url of something else', async () => {
  const ask = (response: Response) => request(`${URL}?a=b`, {}, 1_000, undefined, answering(response).send);
  await assert.rejects(ask(new Response('<html>', { status: 404 })), {
    code: 'bad_config',
    message: 'https://api.example has no /predict: is it the url of the API?',
  });
  await assert.rejects(ask(Response.json({ code: 'not_found', error: 'no' }, { status: 404 })), {
    code: 'not_found',
    message: 'no',
  });
  await assert.rejects(ask(Response.json(null, { status: 400 })), { code: 'bad_request' });
});

test('JSON is posted as that, with the headers that are given, and answers of a success are returned', async () => {
  const { sent, send } = answering(Response.json([1]), new Response('no JSON', { status: 299 }));
  assert.deepEqual(await postJson(URL, '{}', 1_000, send, { 'x-more': 'm' }), [1]);
  const { method, body, headers } = sent[0]?.init as RequestInit;
  assert.deepEqual(
    [method, body, headers],
    ['POST', '{}', { 'content-type': 'application/json', 'x-more': 'm' }],
  );
  assert.equal(await postJson(URL, '{}', 1_000, send), undefined);
});

test('an answer is read up to its limit, by its length and by its bytes', async () => {
  let cancelled = 0;
  const stream = (...sizes: readonly number[]) =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        const size = sizes[at++];
        if (size === undefined) controller.close();
        else controller.enqueue(new Uint8Array(size).fill(at));
      },
      cancel: () => void cancelled++,
    });
  let at = 0;
  const read = async (body: ReadableStream | null, length?: number) => {
    at = 0;
    const headers = length === undefined ? {} : { 'content-length': String(length) };
    const { send } = answering(new Response(body, { headers }));
    return (await requestBytes(URL, {}, { timeoutMs: 1_000, maxBytes: 5, send })).bytes;
  };
  assert.deepEqual([...(await read(stream(2, 3)))], [1, 1, 2, 2, 2]);
  assert.deepEqual([...(await read(null, 5))], []);
  const refused = {
    code: 'too_large',
    message: `the answer of ${URL} is over the limit of 5 bytes`,
  };
  await assert.rejects(read(stream(2, 4, 1, 1)), refused);
  await assert.rejects(read(stream(1), 6), refused);
  assert.equal(cancelled, 2);
  const long = answering(new Response('', { headers: { 'content-length': String(LIMIT + 1) } }));
  await assert.rejects(request(URL, {}, 1_000, undefined, long.send), { code: 'too_large' });
  const just = answering(new Response('1', { headers: { 'content-length': String(LIMIT) } }));
  assert.equal((await request(URL, {}, 1_000, undefined, just.send)).body, 1);
});

test('what cannot be reached says why, by its innermost reason, and under the name that is shown', async () => {
  const ask = (error: Error, shown?: string) =>
    requestBytes(URL, {}, { timeoutMs: 1_000, maxBytes: 5, shown, send: answering(error).send });
  const unavailable = (message: string) => ({ code: 'queue_unavailable', message });
  await assert.rejects(
    ask(new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') })),
    unavailable(`${URL} cannot be reached: ECONNREFUSED`),
  );
  await assert.rejects(
    ask(new TypeError('fetch failed', { cause: new Error('') }), 'the place'),
    unavailable('the place cannot be reached: fetch failed'),
  );
  await assert.rejects(ask(new Error('own')), unavailable(`${URL} cannot be reached: own`));
});
