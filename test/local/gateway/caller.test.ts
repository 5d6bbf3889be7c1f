/** Who may call: by the host, the origin and the token of a request, and how many at once. */
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { corsRules } from '../../../lib/http/cors.ts';
import {
  FLAGS_ADVICE,
  foreignHost,
  foreignOrigin,
  isBearer,
  isOwnOrigin,
  withoutToken,
} from '../../../local/gateway/caller.ts';
import { applyCors } from '../../../local/gateway/cors.ts';
import { Slots } from '../../../local/gateway/slots.ts';
import { hostName, isLoopback, isOwnHost } from '../../../local/machine/hosts.ts';

test('the name of a host is read without its port', () => {
  for (const [header, name] of [
    ['A.Example', 'a.example'],
    ['a.example:80', 'a.example'],
    ['a:12345', 'a'],
    ['[::1]', '::1'],
    ['[::1]:80', '::1'],
    [undefined, undefined],
    ['', undefined],
    ['a:', undefined],
    ['a:123456', undefined],
    ['a b', undefined],
    ['a/b', undefined],
    ['me@a', undefined],
    ['::1', undefined],
    ['[::1', undefined],
    ['a?b', undefined],
    ['a\\b', undefined],
  ] as const)
    assert.equal(hostName(header), name, header);
});

test('this machine is called by its own names, by those that are allowed and by the address of the connection', () => {
  for (const [name, expected] of [
    ['127.0.0.1', true],
    ['127.9.9.9', true],
    ['128.0.0.1', false],
    ['127.a.example', false],
    ['::1', true],
    ['localhost', true],
    ['a.localhost', true],
    ['alocalhost', false],
    ['localhost.example', false],
  ] as const)
    assert.equal(isLoopback(name), expected, name);
  assert.equal(isOwnHost(undefined), false);
  assert.equal(isOwnHost('a.example:80'), false);
  assert.equal(isOwnHost('a.example:80', ['a.example']), true);
  assert.equal(isOwnHost('10.0.0.1', [], '10.0.0.1'), true);
  assert.equal(isOwnHost('10.0.0.1', [], '::ffff:10.0.0.1'), true);
  assert.equal(isOwnHost('10.0.0.1', [], '10.0.0.2'), false);
});

const request = (headers: Record<string, string>, method = 'POST') => {
  const made = new IncomingMessage(new Socket());
  Object.assign(made, { method, headers });
  return made;
};
const textOf = (wire: { status: number; body: unknown } | undefined) =>
  wire && `${wire.status} ${(JSON.parse(String(wire.body)) as { error: string }).error}`;

test('a foreign host, a page of a foreign origin and a caller without the token read what they can do', () => {
  assert.equal(foreignHost({}, request({ host: 'localhost' })), undefined);
  assert.equal(foreignHost({ allowedHosts: ['a'] }, request({ host: 'A:1' })), undefined);
  assert.match(
    textOf(foreignHost({}, request({ host: 'a' }))) ?? '',
    /^403 the host "a" is not a name.*--allow-host/,
  );
  assert.match(
    textOf(foreignHost({ advice: FLAGS_ADVICE }, request({}))) ?? '',
    /^403 the host "" .*a proxy has to call it by its address$/,
  );

  const other = { host: 'localhost:1', origin: 'https://b.example' };
  for (const method of ['GET', 'HEAD', 'OPTIONS'])
    assert.equal(foreignOrigin({}, request(other, method)), undefined);
  assert.equal(foreignOrigin({}, request({ host: 'localhost:1' })), undefined);
  for (const method of ['POST', 'DELETE', 'PUT'])
    assert.match(
      textOf(foreignOrigin({}, request(other, method))) ?? '',
      /^403 pages of the origin "https:\/\/b\.example" may not call.*corsOrigins/,
    );
  assert.match(textOf(foreignOrigin({ advice: FLAGS_ADVICE }, request(other))) ?? '', /start with -cors/);

  const token = 't'.repeat(16);
  assert.equal(withoutToken({}, request({})), undefined);
  assert.equal(withoutToken({ token }, request({ authorization: `bearer  ${token} ` })), undefined);
  const refused = withoutToken({ token }, request({ authorization: `Bearer ${token}x` }));
  assert.match(textOf(refused) ?? '', /^401 this service needs its token.*--token-file <file>$/);
  assert.deepEqual(refused?.headers.slice(-2), ['www-authenticate', 'Bearer']);
  assert.match(textOf(withoutToken({ token, advice: FLAGS_ADVICE }, request({}))) ?? '', /WKR_TOKEN$/);
  for (const given of [
    undefined,
    '',
    token,
    `Basic ${token}`,
    'Bearer',
    `Bearer${token}`,
    `Bearer a ${token}`,
  ])
    assert.equal(isBearer(given, token), false, given);
});

test('an origin is own by the host of the request, behind a proxy by its name, or by the rules', () => {
  const cors = corsRules(['https://b.example']);
  for (const [origin, host, rules, expected] of [
    ['http://localhost:1', 'localhost:1', {}, true],
    ['http://localhost:2', 'localhost:1', {}, false],
    ['https://a.example', 'a.example:443', {}, true],
    ['null', 'localhost', {}, false],
    ['file://', 'localhost', {}, false],
    ['https://a.example', 'localhost:1', { allowedHosts: ['a.example'] }, true],
    ['https://a.example:8', 'localhost:1', { allowedHosts: ['a.example'] }, false],
    ['https://a.example', undefined, {}, false],
    ['https://b.example', 'localhost', { cors }, true],
    ['https://c.example', 'localhost', { cors }, false],
    ['null', 'localhost', { cors: corsRules(['*']) }, true],
  ] as const)
    assert.equal(isOwnOrigin(origin, host, rules), expected, origin);
});

test('the rules of CORS are headers of an answer, and the answer to a question before it', () => {
  const apply = (origins: readonly string[], headers: Record<string, string>, method = 'POST') => {
    const asked = request(headers, method);
    const response = new ServerResponse(asked);
    const isAnswered = applyCors(corsRules(origins), asked, response);
    return { isAnswered, status: response.statusCode, sent: { ...response.getHeaders() }, response };
  };
  const origin = 'https://a.example';
  const exposed = corsRules([origin])?.exposedResponseHeaders.join(',');
  const plain = {
    'access-control-allow-origin': origin,
    'access-control-expose-headers': exposed,
    vary: 'origin',
  };
  const { vary: _, ...all } = { ...plain, 'access-control-allow-origin': '*' };
  for (const [origins, headers, expected] of [
    [[], { origin }, {}],
    [[origin], {}, {}],
    [[origin], { origin: 'https://b.example' }, {}],
    [[origin], { origin }, plain],
    [['*'], { origin }, all],
    [['*', origin], { origin }, all],
  ] as const) {
    const { isAnswered, sent } = apply(origins, headers);
    assert.deepEqual([isAnswered, sent], [false, expected]);
  }
  const ask = { origin, 'access-control-request-method': 'POST' };
  const { isAnswered, status, sent, response } = apply([origin], ask, 'OPTIONS');
  assert.deepEqual([isAnswered, status, response.writableEnded], [true, 204, true]);
  assert.deepEqual(sent, {
    ...plain,
    'access-control-allow-methods': 'GET,POST,DELETE',
    'access-control-allow-headers': corsRules([origin])?.allowedHeaders.join(','),
    'access-control-max-age': '3600',
  });
  assert.deepEqual(apply([origin], { ...ask, origin: 'https://b.example' }, 'OPTIONS').sent, {});
  assert.equal(apply([origin], { ...ask, origin: 'https://b.example' }, 'OPTIONS').isAnswered, true);
  assert.equal(apply([origin], { origin }, 'OPTIONS').isAnswered, false);
  assert.equal(apply([origin], ask, 'POST').isAnswered, false);
});

test('a request whose client left frees its place, and four times as many handlers run at most', () => {
  const slots = new Slots(2);
  assert.equal(slots.isFull, false);
  const first = slots.take();
  assert.equal(slots.isFull, false);
  const second = slots.take();
  assert.equal(slots.isFull, true);
  first.abandon();
  first.abandon();
  assert.equal(slots.isFull, false);
  first.resume();
  first.resume();
  assert.equal(slots.isFull, true);
  second.release();
  first.release();
  const left = Array.from({ length: 7 }, () => {
    const slot = slots.take();
    slot.abandon();
    return slot;
  });
  assert.equal(slots.isFull, false);
  const last = slots.take();
  // Eight handlers run.
  assert.equal(slots.isFull, true);
  left[0]?.release();
  assert.equal(slots.isFull, false);
  last.release();
  for (const slot of left.slice(1)) slot.release();
  const again = [slots.take(), slots.take()];
  assert.equal(slots.isFull, true);
  again[0]?.release();
  assert.equal(slots.isFull, false);
});
