/** Large results over HTTPS: where the SDK goes when the API redirects, what it sends there, and what it believes. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, type TestContext, test } from 'node:test';
import { LIMITS } from '../../lib/contract/limits.ts';
import type { Result } from '../../lib/contract/result.ts';
import { setVariables } from '../../lib/contract/variables.ts';
import { putText } from '../../lib/s3/objects.ts';
import { startAws } from '../../local/aws/aws.ts';
import { type AccessOptions, OutputQueue } from '../../sdk/index.ts';
import { openResults } from '../../sdk/redis-results.ts';
import { useAws } from '../support/environment.ts';
import { SIGNED_ENVIRONMENT } from '../support/signed-api.ts';

const ID = '0b6c7f3e-8a55-4a76-9a0c-3f1f6f2f0d11';
const SIGNATURE = 'X-Amz-Signature=5ec7e7';
const TOKEN = 'eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl';
const HEAD = {
  uri: 'a',
  identity: 'e1',
  status: 'succeeded',
  model: 'v',
  finishedAt: '2026-11-23T00:00:00.000Z',
};
const WHOLE = JSON.stringify({
  ...HEAD,
  outputs: [{ name: 'y', dtype: 'float32', shape: [2], data: [1, 0.5] }],
});
const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
const DIGEST = { bytes: WHOLE.length, sha256: createHash('sha256').update(WHOLE).digest('hex') };

beforeEach(() => {
  useAws(SIGNED_ENVIRONMENT);
  for (const name of ['AUTH', 'TOKEN', 'API_KEY']) setVariables({ [`CLUSTER_SERVING_${name}`]: undefined });
});

async function listen(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Place {
  readonly large?: object;
  readonly location?: string;
  readonly storage?: RequestListener;
  /** Another client takes it after it was in a page. */
  readonly isTakenAfterPage?: boolean;
}

/** An API that has one large result, and the S3 that it redirects to. */
async function openPlaces(
  t: TestContext,
  { large = {}, location, storage, isTakenAfterPage = false }: Place = {},
) {
  const asked: { method: string; query: string; headers: IncomingHttpHeaders }[] = [];
  const fetched: { url: string; headers: IncomingHttpHeaders }[] = [];
  const stored = await listen(t, (request, response) => {
    fetched.push({ url: request.url ?? '', headers: request.headers });
    if (storage) storage(request, response);
    else response.end(WHOLE);
  });
  const body = { ...HEAD, large: { id: ID, ...DIGEST, ...large } };
  let isThere = true;
  const api = await listen(t, (request, response) => {
    const { method = '', url = '', headers } = request;
    const [path, query = ''] = url.split('?');
    asked.push({ method, query, headers });
    const json = (status: number, answer: unknown, more = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...more }).end(JSON.stringify(answer));
    if (path === '/predictions' && query === '') {
      const results = isThere ? [{ ...body, large: { ...body.large, location: '/predictions/a' } }] : [];
      if (isTakenAfterPage) isThere = false;
      return json(200, { results, more: false });
    }
    if (!isThere) return json(404, { error: 'no result', code: 'not_found' });
    if (query.includes(`fetched=${ID}`)) {
      isThere = false;
      return json(200, body);
    }
    return json(303, body, { location: location ?? `${stored}/results/job/${ID}.json?${SIGNATURE}` });
  });
  const open = (options: AccessOptions = {}) => new OutputQueue({ url: api, ...options });
  return { open, asked, fetched, take: () => void (isThere = false) };
}

const WAYS: Readonly<Record<string, AccessOptions>> = {
  'a token': { token: TOKEN },
  'an API key': { apiKey: 'a-key-of-a-gateway' },
  'a signature': { auth: 'iam', region: 'eu-west-1' },
  'a fetch of the caller': {
    fetch: (url, init) =>
      fetch(url, {
        ...init,
        headers: { ...Object.fromEntries(new Headers(init.headers)), authorization: TOKEN },
      }),
  },
};

for (const [name, options] of Object.entries(WAYS)) {
  test(`${name} is sent to the API, and never to where it redirects`, async (t) => {
    const { open, asked, fetched } = await openPlaces(t);
    const queue = open(options);
    const result = await queue.query('a');
    assert.deepEqual(result?.outputs[0]?.data, Float32Array.of(1, 0.5));
    assert.equal((await queue.wait('a')).outputs.length, 1);
    const secrets = /^(authorization|cookie|x-(?!forwarded).*|prefer|referer)$/;
    for (const { headers } of asked) assert.ok(headers['authorization'] ?? headers['x-api-key']);
    assert.equal(fetched.length, 2);
    for (const { headers } of fetched)
      assert.deepEqual(
        Object.keys(headers).filter((header) => secrets.test(header)),
        [],
      );
  });
}

test('a large result is deleted by its id when it was fetched, and not before', async (t) => {
  const away: RequestListener = (_, response) => response.writeHead(403).end('<Error>expired</Error>');
  const failing = await openPlaces(t, { storage: away });
  await assert.rejects(failing.open().queryAndDelete('a'), { code: 'results_unavailable', uri: 'a' });
  assert.ok(!failing.asked.some(({ query }) => query.includes('fetched=')));
  const { open, asked, fetched } = await openPlaces(t);
  assert.equal((await open().queryAndDelete('a'))?.outputs.length, 1);
  assert.deepEqual([asked.map(({ query }) => query), fetched.length], [['uri=a', `uri=a&fetched=${ID}`], 1]);
  assert.equal(await open().query('a'), undefined);
});

test('a wait that takes a large result fetches it once, and then deletes this one', async (t) => {
  const { open, asked, fetched } = await openPlaces(t);
  assert.equal((await open().wait('a', { take: true })).outputs.length, 1);
  const deletion = `uri=a&identity=e1&fetched=${ID}`;
  assert.deepEqual([asked.map(({ query }) => query), fetched.length], [['uri=a', deletion], 1]);
});

test('who takes a page fetches its large results again, and one that another client took is left out', async (t) => {
  const { open, asked } = await openPlaces(t);
  const all = await open().dequeue();
  assert.deepEqual([...all.keys()], ['a']);
  assert.deepEqual(
    asked.map(({ method, query }) => `${method} ${query}`),
    ['DELETE ', 'GET uri=a&identity=e1', `DELETE uri=a&fetched=${ID}`],
  );
  const place: { take: () => void } = { take: () => undefined };
  const other = await openPlaces(t, {
    storage: (_, response) => {
      place.take();
      response.end(WHOLE);
    },
  });
  place.take = other.take;
  const gone = await openPlaces(t, { isTakenAfterPage: true });
  assert.deepEqual([...(await gone.open().dequeue())], []);
  assert.deepEqual([...(await other.open().dequeue())], []);
});

test('what cannot be fetched is an error of its uri in a page, which shows no signature', async (t) => {
  const { open } = await openPlaces(t, { storage: (_, response) => response.writeHead(403).end() });
  const error = (await open().dequeue()).get('a');
  assert.ok(error instanceof Error && error.message.includes('answered 403'));
  assert.ok(!error.message.includes('X-Amz'));
});

const LIES: readonly (readonly [name: string, place: Place, code: string])[] = [
  [
    'other bytes of the same length',
    { storage: (_, r) => r.end(WHOLE.replace('0.5', '0.7')) },
    'results_unavailable',
  ],
  ['an answer that is cut off', { storage: (_, r) => r.end(WHOLE.slice(1)) }, 'results_unavailable'],
  ['more than was announced', { storage: (_, r) => r.end(`${WHOLE} `) }, 'too_large'],
  ['more than any result has', { large: { bytes: LIMITS.largeAnswerBytes + 1 } }, 'too_large'],
  [
    'another redirect',
    {
      storage: (request, r) =>
        request.url === '/x' ? r.end(WHOLE) : r.writeHead(302, { location: '/x' }).end(),
    },
    'queue_unavailable',
  ],
  ['a closed connection', { storage: (request) => request.socket.destroy() }, 'queue_unavailable'],
  ['an address of another kind', { location: 'ftp://127.0.0.1/x' }, 'bad_config'],
];

for (const [name, place, code] of LIES) {
  test(`${name} is refused as ${code}`, async (t) => {
    const { open } = await openPlaces(t, place);
    await assert.rejects(open().query('a'), (error: Error) => {
      assert.equal((error as Error & { code: string }).code, code, error.message);
      assert.ok(!error.message.includes('X-Amz'), error.message);
      return true;
    });
  });
}

test('an API over https that redirects to http is not followed', async () => {
  const send = async () =>
    Response.json(
      { ...HEAD, large: { id: ID, ...DIGEST } },
      { status: 303, headers: { location: 'http://127.0.0.1:1/x' } },
    );
  const queue = new OutputQueue({ url: 'https://api.example', fetch: send });
  await assert.rejects(queue.query('a'), { code: 'bad_config', message: /it is not https/ });
});

test('a redirect of something else than a result is refused with the url to check', async () => {
  const send = async () => Response.json({}, { status: 303, headers: { location: 'https://login.example' } });
  for (const options of [{}, { token: TOKEN }]) {
    const queue = new OutputQueue({ url: 'https://api.example', fetch: send, ...options });
    await assert.rejects(queue.query('a'), { code: 'bad_config', message: /redirects: is it the url/ });
  }
});

test('a large result that Redis points to is read from S3, in each of its forms, and refused where it is another object', async (t) => {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  await aws.createBucket('bucket');
  useAws(aws.environment);
  const text = JSON.stringify(['one', 'two']);
  const address = { bucket: 'bucket', key: `results/job/${ID}` };
  await putText(aws.s3, address, text);
  const source = openResults('redis://127.0.0.1:1', 'job', { endpoint: aws.url, region: aws.region });
  t.after(() => source.close());
  const digest = { bytes: text.length, sha256: createHash('sha256').update(text).digest('hex') };
  const large = { ...address, ...digest, form: 'text', json: digest, finishedAt: 0 } as const;
  const result = { uri: 'a', outputs: [], finishedAt: 0, model: 'v', large } as unknown as Result;
  const { large: _, ...rest } = result;
  assert.deepEqual(await source.whole(result, large), { ...rest, filtered: ['one', 'two'] });
  const { value } = await source.whole(result, { ...large, form: 'bytes' });
  assert.equal(Buffer.from(value as Uint8Array).toString(), text);
  for (const bad of [{ sha256: '0' }, { bytes: text.length - 2 }, { key: `results/job/none` }])
    await assert.rejects(source.whole(result, { ...large, ...bad }), { code: 'results_unavailable' });
});
