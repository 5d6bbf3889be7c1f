/** The recipients of a secret, the reading of a prediction, and the end of calls, without a service. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import type { LargePointer, Result } from '../../lib/contract/result.ts';
import { setVariables } from '../../lib/contract/variables.ts';
import { authorizedFetch } from '../../sdk/access.ts';
import type { Fetch } from '../../sdk/fetch.ts';
import { withSecret } from '../../sdk/http/access.ts';
import { predictionOf } from '../../sdk/http/predictions.ts';
import { fetchRedirect } from '../../sdk/http/redirect.ts';
import { dequeuedOf, isTaken, type ResultSource } from '../../sdk/http/source.ts';
import { InputQueue } from '../../sdk/index.ts';
import { limited, sleep } from '../../sdk/limit.ts';

const API = 'https://api.example';
const TOKEN = 't'.repeat(16);

/** Gives an answer to each call, and keeps what was sent. */
function answering(make: () => Response) {
  const sent: { readonly url: string; readonly init: RequestInit; readonly headers: Headers }[] = [];
  const send: Fetch = async (url, init) => {
    sent.push({ url, init, headers: new Headers(init.headers) });
    return make();
  };
  return { sent, send };
}

test('a secret is a header to the origin of the API alone, instead of one of that name', async () => {
  const { sent, send } = answering(() => new Response());
  await withSecret(`${API}/prod`, { fetch: send, token: TOKEN })(`${API}/x`, {
    headers: { authorization: 'a', b: 'c' },
  });
  await withSecret(API, { fetch: send, apiKey: '!~' })(`${API}/x`, {});
  assert.deepEqual(
    sent.map(({ headers, init }) => [Object.fromEntries(headers), init.redirect]),
    [
      [{ authorization: `Bearer ${TOKEN}`, b: 'c' }, 'manual'],
      [{ 'x-api-key': '!~' }, 'manual'],
    ],
  );
  assert.equal(withSecret(API, { fetch: send }), send);
  for (const to of ['http://api.example/', 'https://api.example:8443/', 'https://b.example/'])
    await assert.rejects(withSecret(API, { fetch: send, token: TOKEN })(to, {}), {
      code: 'bad_config',
      message: `credentials of ${API} are not sent to ${to}`,
    });
  assert.equal(sent.length, 2);
});

test('an invalid secret or address is refused', () => {
  for (const [access, message] of [
    [{ token: TOKEN, apiKey: 'k' }, /^token and apiKey exclude each other$/],
    [{ token: 't'.repeat(15) }, /^token: expected 16 to 8192 /],
    [{ token: 't'.repeat(8_193) }, /^token: expected/],
    [{ apiKey: '' }, /^apiKey: expected 1 to 512 ASCII/],
    [{ apiKey: 'k'.repeat(513) }, /^apiKey: expected/],
    [{ apiKey: 'a b' }, /^apiKey: expected/],
    [{ apiKey: 'é' }, /^apiKey: expected/],
  ] as const)
    assert.throws(() => withSecret(API, access), { code: 'bad_config', message });
  for (const access of [{ token: 't'.repeat(8_192) }, { apiKey: 'k'.repeat(512) }])
    assert.doesNotThrow(() => withSecret(API, access));
  assert.throws(() => withSecret('api', {}), { message: 'url: expected https://host, got "api"' });
});

test('a redirect is refused with a secret, except for a 303 that is asked for', async () => {
  const ask = (
    status: number,
    init: RequestInit = {},
    headers: Record<string, string> = { location: '/x' },
  ) =>
    withSecret(API, { fetch: answering(() => new Response(null, { status, headers })).send, token: TOKEN })(
      API,
      init,
    );
  for (const status of [301, 302, 303, 307, 308])
    await assert.rejects(ask(status), { code: 'bad_config', message: /redirects to \/x, where credentials/ });
  await assert.rejects(ask(303, {}, {}), { message: /redirects to another address,/ });
  const manual = { redirect: 'manual' } as const;
  await assert.rejects(ask(307, manual), { code: 'bad_config' });
  for (const [status, init] of [
    [303, manual],
    [200, {}],
    [300, {}],
    [304, {}],
    [403, {}],
  ] as const)
    assert.equal((await ask(status, init)).status, status);
});

test('a prediction is tensors in the order of the model, or the value that a filter or a worker gave', () => {
  const facts = (...dtypes: readonly string[]) => ({
    outputs: dtypes.map((dtype, i) => ({ name: `n${i}`, dtype, labels: ['a', 'b'] })),
    filter: undefined,
    isWorker: false,
  });
  const read = (value: unknown, known?: ReturnType<typeof facts>) =>
    predictionOf(`{value=${JSON.stringify(value)}}`, 'v', known);
  const tensor = (data: readonly unknown[], ...shape: readonly number[]) => ({ data, shape });
  const one = read(tensor([1, 2], 2));
  assert.deepEqual([one.output.name, one.output.dtype, one.model], ['output0', 'float64', 'v']);
  assert.equal(one.output.labels, undefined);
  const known = read(tensor([1, 2], 1, 2), facts('int64'));
  assert.deepEqual([known.output.name, known.output.dtype, known.output.labels], ['n0', 'int64', ['a', 'b']]);
  assert.equal(read(tensor([1, 2, 3], 3), facts('int64')).output.labels, undefined);
  // It has another number of outputs.
  assert.equal(read(tensor([1], 1), facts('int64', 'int64')).output.name, 'output0');
  const dtypes = [[true], ['a'], [1, 'a'], []].map((data) => read(tensor(data, data.length)).output.dtype);
  assert.deepEqual(dtypes, ['bool', 'string', 'string', 'float64']);
  const two = read([tensor([1], 1), tensor([true], 1)]);
  assert.deepEqual(
    two.outputs.map(({ name, dtype }) => `${name} ${dtype}`),
    ['output0 float64', 'output1 bool'],
  );
  assert.throws(() => two.output, { code: 'bad_request', message: 'there are 2 outputs: read .outputs' });
  for (const value of [
    7,
    [],
    {},
    [[1]],
    { data: 1, shape: [] },
    { data: [1] },
    { data: [1], shape: [1], more: 1 },
  ]) {
    const other = read(value);
    assert.deepEqual([other.outputs, other.value], [[], value]);
  }
  const source = (filter: string | undefined, isWorker: boolean) => ({ outputs: [], filter, isWorker });
  for (const [declared, says] of [
    [undefined, 'its filter or its worker'],
    [source(undefined, true), 'its worker'],
    [source('topN(2)', true), 'its filter topN(2)'],
    [source('topN(2)', false), 'its filter topN(2)'],
    [source(undefined, false), 'its filter'],
  ] as const)
    assert.throws(() => predictionOf('{value=1}', '', declared).output, {
      message: `the job answers with ${says}: read .value`,
    });
  for (const wrong of [7, 'x{value=1}', '{value=1', '{value=}', '{value=x}'])
    assert.throws(() => predictionOf(wrong, '', undefined), { code: 'internal', message: /no \{value=…\}$/ });
});

test('a large result is fetched where the API says, without who calls, up to its size and if it is whole', async () => {
  const body = 'the result';
  const sha256 = createHash('sha256').update(body).digest('hex');
  const fetched = async (location: string, change: object = {}, response = () => new Response(body)) => {
    const [own, bare] = [answering(response), answering(response)];
    const redirect = { location, bytes: body.length, sha256, ...change };
    const bytes = await fetchRedirect(redirect, {
      api: `${API}/predictions`,
      send: own.send,
      bare: bare.send,
    });
    assert.equal(Buffer.from(bytes).toString(), body);
    return [own.sent.map(({ url }) => url), bare.sent.map(({ url }) => url)];
  };
  assert.deepEqual(await fetched('/large?x'), [[`${API}/large?x`], []]);
  assert.deepEqual(await fetched('https://s3.example/k?secret'), [[], ['https://s3.example/k?secret']]);
  const shown = 'https://s3.example/k';
  for (const [location, change, response, code, message] of [
    [
      'http://s3.example/k',
      {},
      undefined,
      'bad_config',
      /redirects to http:\/\/s3\.example\/k, which is not/,
    ],
    [
      `${shown}?secret`,
      { bytes: 256 * 2 ** 20 + 1 },
      undefined,
      'too_large',
      /^the result has 268435457 bytes/,
    ],
    [
      `${shown}?secret`,
      { bytes: body.length - 1 },
      undefined,
      'too_large',
      /of https:\/\/s3\.example\/k is over/,
    ],
    [`${shown}?secret`, { sha256: 'x' }, undefined, 'results_unavailable', /k answered with something else/],
    [
      `${shown}?secret`,
      {},
      () => new Response('', { status: 403 }),
      'results_unavailable',
      /fetched: https:\/\/s3\.example\/k answered 403$/,
    ],
  ] as const)
    await assert.rejects(fetched(location, change, response), { code, message });
});

const LARGE = { key: 'a/b' } as LargePointer;
const result = (large?: LargePointer) => ({ uri: 'u', large }) as unknown as Result;
const failing = (code: ErrorCode) => Promise.reject(new ServingError(code, code));

test('a large result of a page is taken when it is here, and left out where another client has it', async () => {
  const { signal } = new AbortController();
  const asked: unknown[] = [];
  const source = (whole: () => Promise<Result>, take: () => Promise<Result | undefined>) =>
    ({
      whole,
      take: (uri: string, query: object) => {
        asked.push([uri, query]);
        return take();
      },
    }) as unknown as ResultSource;
  const [here, gone] = [async () => result(), async () => undefined];
  const dequeued = { uri: 'u', result: result(LARGE) };
  assert.deepEqual(await dequeuedOf(source(here, here), dequeued, signal), { uri: 'u', result: result() });
  assert.deepEqual(asked, [['u', { fetched: 'b' }]]);
  assert.equal(await dequeuedOf(source(here, gone), dequeued, signal), undefined);
  assert.equal(
    await dequeuedOf(
      source(() => failing('not_found'), here),
      dequeued,
      signal,
    ),
    undefined,
  );
  const lost = await dequeuedOf(
    source(() => failing('too_large'), here),
    dequeued,
    signal,
  );
  assert.equal(lost && 'error' in lost && lost.error.code, 'too_large');
  asked.length = 0;
  const small = { uri: 'u', result: result() };
  assert.equal(await dequeuedOf(source(here, here), small, signal), small);
  const error = { uri: 'u', error: new ServingError('internal', '') };
  assert.equal(await dequeuedOf(source(here, here), error, signal), error);
  assert.deepEqual(asked, []);
  // It would be lost if it were not used.
  assert.equal(
    await isTaken(
      source(here, () => failing('timeout')),
      result(),
      LARGE,
    ),
    true,
  );
});

test('a call ends with its work, at its limit or by its signal, and listens to that no longer', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { signal } = new AbortController();
  assert.equal(await limited({ signal, timeoutMs: 5 }, async () => 7), 7);
  await assert.rejects(
    limited({ signal }, () => failing('conflict')),
    { code: 'conflict' },
  );
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  let end: AbortSignal | undefined;
  const silent = (given: AbortSignal) => {
    end = given;
    return new Promise(() => undefined);
  };
  const late = assert.rejects(limited({ timeoutMs: 99.5, what: 'no answer in', uri: 'u' }, silent), {
    code: 'timeout',
    message: 'no answer in 100 ms',
    uri: 'u',
  });
  t.mock.timers.tick(99);
  await turn();
  assert.equal(end?.aborted, false);
  t.mock.timers.tick(1);
  await late;
  assert.equal(end?.aborted, true);
  const stop = new AbortController();
  const stopped = assert.rejects(limited({ signal: stop.signal }, silent), /enough/);
  stop.abort(new Error('enough'));
  await stopped;
  assert.match(String(end?.reason), /enough/);
  await assert.rejects(sleep(1, stop.signal), /enough/);
  for (const timeoutMs of [-1, Number.NaN])
    await assert.rejects(limited({ timeoutMs }, silent), { code: 'bad_request' });
  let isOver = false;
  const slept = sleep(50).then(() => (isOver = true));
  t.mock.timers.tick(49);
  await turn();
  assert.equal(isOver, false);
  t.mock.timers.tick(1);
  await slept;
});

test('a trace goes with a request where a header can have it', async () => {
  const parent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
  for (const [given, expected] of [
    [{}, [null, null]],
    [{ traceparent: parent }, [parent, null]],
    [{ traceparent: parent, tracestate: 'a=b' }, [parent, 'a=b']],
    [{ traceparent: parent, tracestate: 'é' }, [parent, null]],
    [{ traceparent: parent, tracestate: 'a'.repeat(513) }, [parent, null]],
    [{ traceparent: parent, tracestate: 'a'.repeat(512) }, [parent, 'a'.repeat(512)]],
    [{ traceparent: parent.slice(1), tracestate: 'a=b' }, [null, null]],
    [{ traceparent: 'a'.repeat(512) }, ['a'.repeat(512), null]],
    [{ traceparent: 'a'.repeat(513) }, [null, null]],
    [{ traceparent: `${parent}\n` }, [null, null]],
    [{ tracestate: 'a=b' }, [null, null]],
  ] as const) {
    const { sent, send } = answering(() => Response.json({ predictions: [] }));
    const queue = new InputQueue({ frontendUrl: `${API}//`, fetch: send });
    await queue.predict('{}', given);
    await queue.enqueue('u', { x: 1 }, { ...given, identity: 'i' });
    for (const { headers } of sent)
      assert.deepEqual([headers.get('traceparent'), headers.get('tracestate')], expected);
    assert.deepEqual(
      sent.map(({ url, init, headers }) => [url, init.method, headers.get('idempotency-key')]),
      [
        [`${API}/predict`, 'POST', null],
        [`${API}/predictions`, 'POST', 'i'],
      ],
    );
  }
});

test('a request of the contract is sent unchanged, and inputs as its instances', async () => {
  const predictions = ['{value=1}'];
  const ask = async (given: unknown, answer: unknown = { predictions }) => {
    const { sent, send } = answering(() => Response.json(answer, { headers: { 'model-version': 'v' } }));
    const found = await new InputQueue({ name: 'j', frontendUrl: API, fetch: send }).predict(given as never);
    return [sent[0]?.init.body, found] as const;
  };
  assert.deepEqual(await ask('no JSON'), ['no JSON', predictions]);
  const request = { instances: [{ x: 1 }], bindByPosition: true };
  assert.deepEqual(await ask(request), [JSON.stringify(request), predictions]);
  assert.deepEqual(await ask({ instances: [] }), ['{"instances":[]}', predictions]);
  const [body, one] = await ask({ x: [1] });
  assert.equal(body, '{"instances":[{"x":[1]}]}');
  assert.equal((one as unknown as { text: string; model: string }).text, '{value=1}');
  assert.equal((one as unknown as { text: string; model: string }).model, 'v');
  const [, several] = await ask([{ x: [1] }]);
  assert.equal((several as unknown as unknown[]).length, 1);
  // An input of that name whose value is not a list of objects.
  assert.equal((await ask({ instances: [1] }))[0], '{"instances":[{"instances":[1]}]}');
  for (const answer of [{}, null, { predictions: 1 }])
    await assert.rejects(ask({ x: [1] }, answer), { code: 'internal', message: /it has no predictions$/ });
  await assert.rejects(ask([{ x: [1] }, { x: [1] }]), { code: 'internal', message: /number of predictions/ });
});

test('an empty variable is ignored', async (t) => {
  t.after(() => setVariables({ CLUSTER_SERVING_AUTH: undefined }));
  const { send } = answering(() => new Response());
  for (const text of [undefined, '', 'none']) {
    setVariables({ CLUSTER_SERVING_AUTH: text });
    assert.equal(authorizedFetch(API, { fetch: send }), send);
  }
  setVariables({ CLUSTER_SERVING_AUTH: 'other' });
  assert.throws(() => authorizedFetch(API, { fetch: send }), {
    code: 'bad_config',
    message: 'CLUSTER_SERVING_AUTH: expected one of iam, jwt, api-key, none, got "other"',
  });
  // The option takes precedence.
  assert.doesNotThrow(() => authorizedFetch(API, { fetch: send, token: TOKEN }));
});
