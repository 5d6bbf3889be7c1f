/** The signer against cases that botocore signed (test/fixtures/sigv4), and against a check of its own. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { ServingError } from '../../lib/contract/errors.ts';
import { Signer } from '../../sdk/sign.ts';
import { refusal } from '../support/signature-check.ts';

interface Cases {
  readonly at: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly cases: readonly {
    readonly name: string;
    readonly method: string;
    /** Ways to write the same url. */
    readonly urls: readonly string[];
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly sessionToken: string | null;
    readonly sent: string;
    readonly authorization: string;
  }[];
}

const { at, accessKeyId, secretAccessKey, region, cases } = JSON.parse(
  readFileSync(new URL('../fixtures/sigv4/cases.json', import.meta.url), 'utf8'),
) as Cases;

interface Sent {
  readonly url: string;
  readonly init: RequestInit;
  readonly headers: Readonly<Record<string, string>>;
}

/** A signer, and what it sends; the answers in their order, the last one again and again. */
function signing(
  sessionToken: string | null = null,
  answers: readonly Response[] = [],
  now = Date.parse(at),
) {
  const sent: Sent[] = [];
  const token = sessionToken === null ? {} : { sessionToken };
  const keys = { accessKeyId, secretAccessKey, ...token };
  const signer = new Signer({ region, credentials: async () => keys, now: () => now });
  const send = async (url: string, init: RequestInit) => {
    sent.push({ url, init, headers: init.headers as Record<string, string> });
    return (answers[Math.min(sent.length, answers.length) - 1] ?? new Response('{}')).clone();
  };
  const ask = async (url: string, init: RequestInit = {}) => {
    await signer.ready();
    return signer.send(url, init, send);
  };
  return { sent, ask, keys };
}

for (const { name, method, urls, headers, body, sessionToken, sent: url, authorization } of cases) {
  test(`botocore signs the same: ${name}`, async () => {
    for (const given of urls) {
      const { sent, ask, keys } = signing(sessionToken);
      await ask(given, { method, headers, ...(body === '' ? {} : { body }) });
      const [one] = sent;
      assert.equal(one?.url, url);
      assert.equal(one.headers['authorization'], authorization);
      // And so does the check that the other tests rely on.
      const { origin, host } = new URL(url);
      const received = {
        method,
        url: url.slice(origin.length),
        headers: { ...one.headers, host },
        body: Buffer.from(body),
      };
      assert.equal(refusal(received, { keys, region, now: Date.parse(at) }), undefined);
      const changed = { ...received, body: Buffer.from(`${body} `) };
      assert.match(String(refusal(changed, { keys, region, now: Date.parse(at) })), /hash of the body/);
      const moved = { ...received, method: method === 'GET' ? 'DELETE' : 'GET' };
      assert.match(String(refusal(moved, { keys, region, now: Date.parse(at) })), /^the signature of/);
    }
  });
}

test('every kind of body is signed and sent as its bytes', async () => {
  const bytes = Uint8Array.of(0, 255, 128, 10);
  for (const body of [bytes, bytes.buffer, new Blob([bytes]), Buffer.from(bytes)]) {
    const { sent, ask } = signing();
    await ask('https://api.example/predict', { method: 'POST', body });
    assert.deepEqual(new Uint8Array(sent[0]?.init.body as Uint8Array), bytes);
  }
  const { sent, ask } = signing();
  await ask('https://api.example/predict', { method: 'POST', body: new URLSearchParams({ a: 'b c' }) });
  assert.equal(Buffer.from(sent[0]?.init.body as Uint8Array).toString(), 'a=b+c');
  assert.match(sent[0]?.headers['content-type'] ?? '', /^application\/x-www-form-urlencoded/);
});

test('a path with an escape that is none is refused before anything is sent', async () => {
  const { sent, ask } = signing();
  await assert.rejects(ask('https://api.example/a%zz'), (error: ServingError) => {
    assert.deepEqual(
      [error.code, error.message, error.cause instanceof URIError],
      ['bad_request', 'the path of the url has an escape that is none: a%zz', true],
    );
    return true;
  });
  assert.equal(sent.length, 0);
});

const forbidden = (date?: string) =>
  new Response('{}', { status: 403, ...(date === undefined ? {} : { headers: { date } }) });
const HOUR = 3_600_000;
const dateAfter = (ms: number) => new Date(Date.parse(at) + ms).toUTCString();

test('a clock that is wrong is corrected by the Date of a 403, once, and stays corrected', async () => {
  const { sent, ask } = signing(null, [forbidden(dateAfter(HOUR)), new Response('{}')]);
  assert.equal((await ask('https://api.example/ready')).status, 200);
  assert.equal((await ask('https://api.example/ready')).status, 200);
  const times = sent.map(({ headers }) => headers['x-amz-date']);
  assert.deepEqual(times, ['20261123T105959Z', '20261123T115959Z', '20261123T115959Z']);
});

test('a request is signed for the time of its clock, to the millisecond', async () => {
  const { sent, ask } = signing(null, [], Date.parse(at) + 999);
  await ask('https://api.example/ready');
  assert.equal(sent[0]?.headers['x-amz-date'], '20261123T105959Z');
});

test('a clock is wrong beyond four minutes, ahead or behind', async () => {
  for (const [ms, times] of [
    [240_000, 1],
    [241_000, 2],
    [-240_000, 1],
    [-241_000, 2],
  ] as const) {
    const { sent, ask } = signing(null, [forbidden(dateAfter(ms)), new Response('{}')]);
    await ask('https://api.example/ready');
    assert.equal(sent.length, times, String(ms));
  }
});

test('requests that are refused together for a wrong clock are all sent again', async () => {
  const keys = { accessKeyId, secretAccessKey };
  const signer = new Signer({ region, credentials: async () => keys, now: () => Date.parse(at) });
  await signer.ready();
  const send = async (_: string, { headers }: RequestInit) =>
    new Headers(headers).get('x-amz-date') === '20261123T105959Z'
      ? forbidden(dateAfter(HOUR))
      : new Response('{}');
  const both = ['a', 'b'].map((path) => signer.send(`https://api.example/${path}`, {}, send));
  const statuses = (await Promise.all(both)).map(({ status }) => status);
  assert.deepEqual(statuses, [200, 200]);
});

test('a body that can be read once is sent again with the corrected clock', async () => {
  const { sent, ask } = signing(null, [forbidden(dateAfter(HOUR)), new Response('{}')]);
  const body = new Blob(['{}']).stream();
  const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
  assert.equal((await ask('https://api.example/predict', init)).status, 200);
  assert.deepEqual(
    sent.map((one) => Buffer.from(one.init.body as Uint8Array).toString()),
    ['{}', '{}'],
  );
});

test('a 403 of a clock that agrees, or without a Date, is the answer', async () => {
  for (const answer of [forbidden(dateAfter(60_000)), forbidden(), forbidden('soon')]) {
    const { sent, ask } = signing(null, [answer]);
    assert.equal((await ask('https://api.example/ready')).status, 403);
    assert.equal(sent.length, 1);
  }
});

test('a clock whose correction does not help is not corrected', async () => {
  const { sent, ask } = signing(null, [
    forbidden(dateAfter(HOUR)),
    forbidden(dateAfter(HOUR)),
    new Response('{}'),
  ]);
  assert.equal((await ask('https://api.example/ready')).status, 403);
  assert.equal((await ask('https://api.example/ready')).status, 200);
  const times = sent.map(({ headers }) => headers['x-amz-date']);
  assert.deepEqual(times, ['20261123T105959Z', '20261123T115959Z', '20261123T105959Z']);
});

test('without credentials the error says what the chain says, and a signal ends the search', async () => {
  const none = new Signer({ region, credentials: () => Promise.reject(new Error('nothing in ~/.aws')) });
  await assert.rejects(none.ready(), { code: 'unauthorized', message: /credentials.*nothing in ~\/\.aws/ });
  const silent = new Signer({ region, credentials: () => new Promise(() => undefined) });
  const abort = new AbortController();
  const ready = silent.ready(abort.signal);
  abort.abort(new Error('enough'));
  await assert.rejects(ready, /enough/);
});
