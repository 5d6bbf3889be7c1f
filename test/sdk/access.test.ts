/** How the clients say who calls, against an API that verifies signatures itself. */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, test } from 'node:test';
import { setVariables } from '../../lib/contract/variables.ts';
import { type AccessOptions, authorizedFetch, InputQueue, OutputQueue } from '../../sdk/index.ts';
import { retrying } from '../../sdk/retries.ts';
import { useAws } from '../support/environment.ts';
import type { Hooks } from '../support/runner.ts';
import type { Received } from '../support/signature-check.ts';
import { SIGNED_ENVIRONMENT, startSignedApi } from '../support/signed-api.ts';

const OURS = ['AUTH', 'TOKEN', 'API_KEY'].map((name) => [`CLUSTER_SERVING_${name}`, undefined] as const);
const API = 'https://a1b2c3.execute-api.eu-west-1.amazonaws.com';
const TOKEN = 'eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl';

beforeEach(() => {
  useAws(SIGNED_ENVIRONMENT);
  setVariables(Object.fromEntries(OURS));
});

/** Answers of a service behind the gateway. */
function serve({ method, url }: Received): Response {
  const { pathname, searchParams } = new URL(url, 'http://any');
  const uri = searchParams.get('uri') ?? '';
  if (pathname === '/predict') return Response.json({ predictions: ['{value=[1]}'] });
  if (pathname === '/status') return Response.json({ uri, status: 'queued' });
  if (method === 'POST') return Response.json({ uri }, { status: 202 });
  return Response.json({
    uri,
    status: 'succeeded',
    model: 'v',
    finishedAt: '2026-11-21T00:00:00Z',
    outputs: [],
  });
}

test('every call of both queues is signed with any uri', async (t) => {
  const { url, seen, refused } = await startSignedApi(t, { behind: serve });
  const input = new InputQueue({ frontendUrl: `${url}/`, auth: 'iam' });
  const output = new OutputQueue({ url, auth: 'iam' });
  assert.deepEqual(await input.predict({ instances: [{ x: 'día' }] }), ['{value=[1]}']);
  for (const uri of ['a', 'a/b?c=d&e', '{x} y+z', "!'()*", '日本 🙂', '%41', '..', 'a//b']) {
    assert.equal((await input.enqueue(uri, { x: [1] })).uri, uri);
    assert.equal((await output.query(uri))?.uri, uri);
    assert.equal((await output.queryAndDelete(uri))?.uri, uri);
    assert.equal((await output.wait(uri)).uri, uri);
    assert.equal(await output.status(uri), 'queued');
    assert.equal(await output.cancel(uri), true);
  }
  assert.deepEqual(refused, []);
  assert.equal(seen.length, 1 + 8 * 6);
});

test('an API whose clock is an hour ahead is asked twice once, and then once', async (t) => {
  const { url, seen, refused } = await startSignedApi(t, { behind: serve, aheadMs: 3_600_000 });
  const output = new OutputQueue({ url, auth: 'iam' });
  for (let i = 0; i < 3; i++) assert.equal(await output.status('a'), 'queued');
  assert.deepEqual([refused.length, seen.length], [1, 4]);
});

test('credentials that may not call end as unauthorized, with what to do, after one request', async (t) => {
  const { url, seen } = await startSignedApi(t, { behind: serve });
  setVariables({ AWS_SECRET_ACCESS_KEY: 'another' });
  const refusal = { code: 'unauthorized', message: /^Forbidden .*execute-api:Invoke.*token/ };
  await assert.rejects(new OutputQueue({ url, auth: 'iam' }).status('a'), refusal);
  assert.equal(seen.length, 1);
});

interface Sent {
  readonly url: string;
  readonly headers: Headers;
}

/** A `fetch` that keeps what it was asked. */
function keeping(answer: () => Response = () => Response.json({ status: 'queued' })) {
  const sent: Sent[] = [];
  const fetch = async (url: string, { headers }: RequestInit) => {
    sent.push({ url, headers: new Headers(headers) });
    return answer();
  };
  return { sent, fetch };
}

async function headersOf(url: string, options: AccessOptions): Promise<Headers> {
  const { sent, fetch } = keeping();
  await authorizedFetch(url, { ...options, fetch })(`${url}/status`, {});
  return sent[0]?.headers as Headers;
}

test('a token, an API key and a signature come from options or the environment, one of them', async () => {
  const bearer = `Bearer ${TOKEN}`;
  const of = async (options: AccessOptions, variables: Readonly<Record<string, string>> = {}) => {
    setVariables({ ...Object.fromEntries(OURS), ...variables });
    const headers = await headersOf(API, options);
    return [headers.get('authorization')?.replace(/ .*Credential=/, ' ') ?? null, headers.get('x-api-key')];
  };
  const signed = /^AWS4-HMAC-SHA256 AKIDSIGNED\/\d{8}\/eu-west-1\/execute-api\/aws4_request,/;
  assert.deepEqual(await of({ token: TOKEN }), [bearer, null]);
  assert.deepEqual(await of({ apiKey: 'k' }), [null, 'k']);
  assert.deepEqual(await of({}, { CLUSTER_SERVING_TOKEN: TOKEN }), [bearer, null]);
  assert.deepEqual(await of({}, { CLUSTER_SERVING_API_KEY: 'k' }), [null, 'k']);
  assert.deepEqual(await of({ apiKey: 'k' }, { CLUSTER_SERVING_TOKEN: TOKEN }), [null, 'k']);
  assert.deepEqual(
    await of({ auth: 'jwt' }, { CLUSTER_SERVING_TOKEN: TOKEN, CLUSTER_SERVING_API_KEY: 'k' }),
    [bearer, null],
  );
  assert.deepEqual(await of({ auth: 'none' }, { CLUSTER_SERVING_TOKEN: TOKEN }), [null, null]);
  assert.match(String((await of({ auth: 'iam' }, { CLUSTER_SERVING_TOKEN: TOKEN }))[0]), signed);
  assert.match(String((await of({}, { CLUSTER_SERVING_AUTH: 'iam' }))[0]), signed);
  // Who passes a fetch may sign in it.
  assert.deepEqual(await of({}), [null, null]);
});

test('what contradicts itself, and what no header can be, is refused without showing it', () => {
  const refused = (options: AccessOptions, message: RegExp) =>
    assert.throws(
      () => authorizedFetch(API, options),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'bad_config');
        assert.match(error.message, message);
        assert.ok(!error.message.includes('SECRET'), error.message);
        return true;
      },
    );
  const token = 'SECRET-SECRET-SECRET';
  refused({ token, apiKey: 'SECRET' }, /token.* and .*API key.* exclude each other/);
  refused({ auth: 'iam', token }, /auth iam and a token/);
  refused({ auth: 'none', apiKey: 'SECRET' }, /auth none and an API key/);
  refused({ auth: 'jwt' }, /auth jwt needs a token .*CLUSTER_SERVING_TOKEN/);
  refused({ auth: 'api-key' }, /auth api-key needs an API key/);
  refused({ token: 'SECRET SECRET SECRET' }, /^token: expected 16 to 8192/);
  refused({ token: 'x'.repeat(8_193) }, /^token: expected 16 to 8192/);
  refused({ apiKey: 'SECRET\n' }, /^apiKey: expected/);
  setVariables({ CLUSTER_SERVING_TOKEN: token, CLUSTER_SERVING_API_KEY: 'SECRET' });
  refused({}, /exclude each other/);
  setVariables({ CLUSTER_SERVING_AUTH: 'basic' });
  refused({}, /CLUSTER_SERVING_AUTH: expected one of iam, jwt, api-key, none, got "basic"/);
  assert.throws(() => authorizedFetch('api.example'), { code: 'bad_config', message: /^url: expected/ });
});

test('the region is that of the address; a domain of your own needs it said', async () => {
  const regionOf = async (url: string, options: AccessOptions = {}) =>
    (await headersOf(url, { auth: 'iam', ...options })).get('authorization')?.split('/')[2];
  assert.equal(
    await regionOf('https://x1.execute-api.us-gov-west-1.amazonaws.com', { region: 'eu-west-1' }),
    'us-gov-west-1',
  );
  assert.equal(await regionOf('https://x1.execute-api.cn-north-1.amazonaws.com.cn'), 'cn-north-1');
  assert.equal(await regionOf('https://x1.execute-api.ap-south-2.api.aws'), 'ap-south-2');
  assert.equal(await regionOf('https://api.example', { region: 'ap-south-2' }), 'ap-south-2');
  assert.equal(await regionOf('https://api.example'), 'eu-west-1');
  setVariables({ AWS_REGION: undefined, AWS_DEFAULT_REGION: undefined });
  assert.throws(() => authorizedFetch('https://api.example', { auth: 'iam' }), {
    code: 'bad_config',
    message: /needs a region for api\.example: .*--region/,
  });
});

/** Replaces the global fetch, for clients that are given none. */
function globalFetch(t: Hooks, answer: () => Response) {
  const { sent, fetch: own } = keeping(answer);
  const before = globalThis.fetch;
  globalThis.fetch = own as typeof fetch;
  t.after(async () => void (globalThis.fetch = before));
  return sent;
}

test("an address of API Gateway's own is signed unasked; no other is", async (t) => {
  const sent = globalFetch(t, () => Response.json({ status: 'queued' }));
  await new OutputQueue({ url: API }).status('a');
  await new OutputQueue({ url: 'https://api.example' }).status('a');
  await new OutputQueue({ url: 'https://x1.execute-api.eu-west-1.amazonaws.com.evil.example' }).status('a');
  const signed = sent.map(({ headers }) => headers.get('authorization')?.startsWith('AWS4-') ?? false);
  assert.deepEqual(signed, [true, false, false]);
});

test('without credentials it is asked unsigned, and a refusal then says that there were none', async (t) => {
  setVariables({
    AWS_ACCESS_KEY_ID: undefined,
    AWS_SECRET_ACCESS_KEY: undefined,
    AWS_CONFIG_FILE: '/nowhere',
    AWS_SHARED_CREDENTIALS_FILE: '/nowhere',
  });
  t.after(() => setVariables({ AWS_CONFIG_FILE: undefined, AWS_SHARED_CREDENTIALS_FILE: undefined }));
  let status = 403;
  const sent = globalFetch(t, () => Response.json({ status: 'queued' }, { status }));
  const output = new OutputQueue({ url: API });
  await assert.rejects(output.status('a'), { code: 'unauthorized', message: /403; no AWS credentials/ });
  status = 200;
  assert.equal(await output.status('a'), 'queued');
  assert.ok(sent.every(({ headers }) => !headers.has('authorization')));
  // Where a signature was asked for, nothing is sent without one.
  await assert.rejects(new OutputQueue({ url: API, auth: 'iam' }).status('a'), { code: 'unauthorized' });
  assert.equal(sent.length, 2);
});

/** A server that sends everybody on to another. */
async function redirecting(t: Hooks, target: string, seen: IncomingMessage[] = []) {
  const server = createServer((request, response) => {
    seen.push(request);
    response.writeHead(307, { location: target + request.url }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a redirect is not followed with a signature, a token or a key, also on the same host', async (t) => {
  const reached: IncomingMessage[] = [];
  const other = await redirecting(t, 'http://127.0.0.1:9', reached);
  for (const access of [{ auth: 'iam' }, { token: TOKEN }, { apiKey: 'k' }] as const) {
    const url = await redirecting(t, other);
    await assert.rejects(new OutputQueue({ url, ...access }).status('a'), {
      code: 'bad_config',
      message: /redirects to .*where credentials are not sent/,
    });
    await assert.rejects(new InputQueue({ frontendUrl: url, ...access }).predict({ instances: [] }), {
      code: 'bad_config',
    });
  }
  assert.equal(reached.length, 0);
  const send = authorizedFetch(API, { token: TOKEN, fetch: keeping().fetch });
  await assert.rejects(send('https://elsewhere.example/x', {}), {
    code: 'bad_config',
    message: /not sent to/,
  });
});

test('a throttled enqueue is sent again under the same identity, and signed again', async (t) => {
  const answers = [429, 503, 202];
  const { url, seen, refused } = await startSignedApi(t, {
    behind: () => Response.json({ uri: 'a' }, { status: answers.shift() ?? 500 }),
  });
  const input = new InputQueue({ frontendUrl: url, auth: 'iam' });
  const { identity } = await input.enqueue('a', { x: [1] });
  const identities = seen.map(({ headers }) => headers['idempotency-key']);
  assert.deepEqual(identities, [identity, identity, identity]);
  assert.deepEqual(new Set(seen.map(({ body }) => body.toString())).size, 1);
  assert.deepEqual(refused, []);
});

const LOST = new TypeError('fetch failed');
const RETRIES: readonly (readonly [
  what: string,
  init: RequestInit,
  answer: number | Error,
  times: number,
])[] = [
  ['a read', {}, 503, 3],
  ['a read', {}, 502, 3],
  ['a read', {}, 429, 3],
  ['a read', {}, LOST, 3],
  ['a read', {}, new Error('another'), 1],
  ['a read', {}, 500, 1],
  ['a read', {}, 404, 1],
  ['an enqueue with its identity', { method: 'POST', headers: { 'idempotency-key': 'i' } }, LOST, 3],
  ['what takes a result', { method: 'DELETE' }, 429, 3],
  ['what takes a result', { method: 'DELETE' }, 503, 1],
  ['what takes a result', { method: 'DELETE' }, LOST, 1],
  ['a prediction', { method: 'POST' }, 503, 1],
  ['a prediction', { method: 'POST' }, LOST, 1],
];

for (const [what, init, answer, times] of RETRIES) {
  test(`${what} that ends with ${answer instanceof Error ? answer.message : answer} is sent ${times} times`, async () => {
    let count = 0;
    const send = retrying(
      async () => {
        count++;
        if (answer instanceof Error) throw answer;
        return new Response('', { status: answer });
      },
      () => 0,
    );
    const ended = await send(API, init).catch((error: unknown) => error);
    assert.equal(answer instanceof Error ? ended : (ended as Response).status, answer);
    assert.equal(count, times);
  });
}

test('a service that asks for a long pause is not waited for, and an aborted call does not wait', async () => {
  let count = 0;
  const send = retrying(async () => {
    count++;
    return new Response('', { status: 429, headers: { 'retry-after': '60' } });
  });
  assert.equal((await send(API, {})).status, 429);
  assert.equal(count, 1);
  const abort = new AbortController();
  const aborted = retrying(async () => {
    abort.abort(new Error('enough'));
    return new Response('', { status: 429 });
  });
  await assert.rejects(aborted(API, { signal: abort.signal }), /enough/);
});

test('what is sent again waits as long as the service asks and a part of a pause that doubles, and reads no answer before', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let [count, cancelled] = [0, 0];
  const body = () => new ReadableStream({ cancel: () => void cancelled++ });
  const answering = (seconds: number) =>
    retrying(
      async () => {
        count++;
        return new Response(body(), { status: 429, headers: { 'retry-after': String(seconds) } });
      },
      () => 0.5,
    );
  const sent = answering(2)(API, {});
  for (const [ms, times] of [
    [0, 1],
    [2_099, 1],
    [1, 2],
    [2_199, 2],
    [1, 3],
  ] as const) {
    t.mock.timers.tick(ms);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(count, times);
  }
  assert.deepEqual([(await sent).status, cancelled], [429, 2]);
  assert.equal((await answering(3)(API, {})).status, 429);
  assert.equal(count, 4);
});

test('a wait for a result ends in its time, also where the API is silent', async () => {
  const silent = (_: string, { signal }: RequestInit) =>
    new Promise<Response>((_resolve, reject) => {
      const alive = setTimeout(() => reject(new Error('it was not ended')), 20_000);
      signal?.addEventListener('abort', () => {
        clearTimeout(alive);
        reject(signal.reason as Error);
      });
    });
  const output = new OutputQueue({ url: API, fetch: silent });
  await assert.rejects(output.wait('a', { timeoutMs: 2_100 }), {
    code: 'timeout',
    uri: 'a',
    message: /no result after 2100 ms/,
  });
});

test('dequeue with a time limit leaves the rest for the next call', async () => {
  const results = ['a', 'b', 'c'].map((uri) => ({ uri, status: 'succeeded', model: 'v', outputs: [] }));
  const pages = [
    { results, more: true },
    { results: [], more: false },
  ];
  const output = new OutputQueue({ url: API, fetch: async () => Response.json(pages.shift()) });
  assert.deepEqual([...(await output.dequeue({ timeoutMs: 0 })).keys()], ['a']);
  assert.deepEqual([...(await output.dequeue()).keys()], ['b', 'c']);
});
