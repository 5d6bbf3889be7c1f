/** Tenants, canary keys and times of records in the queue, at an SQS in this process. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { startAws } from '../../local/aws/aws.ts';
import { InputQueue } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { rawRequest } from '../support/raw-request.ts';
import type { Hooks } from '../support/runner.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

interface Entry {
  readonly MessageBody: string;
  readonly MessageGroupId?: string;
  readonly MessageAttributes?: Readonly<Record<string, { readonly StringValue: string }>>;
}

/** A queue, and the entries of each request on its way to it: the SQS in this process forgets their groups. */
async function queueOf(t: Hooks) {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  useAws(aws.environment);
  const { url } = await aws.createQueue({
    name: 'q',
    visibilitySeconds: 60,
    maxReceiveCount: 3,
    deadLetterName: 'q-dlq',
  });
  const calls: Entry[][] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      calls.push((JSON.parse(body) as { Entries: Entry[] }).Entries);
      const { method = '', url: path = '', headers } = request;
      const sent = { method, path, body, headers: headers as Record<string, string> };
      const answer = await rawRequest(Number(new URL(aws.url).port), sent);
      response.writeHead(answer.status, answer.headers).end(answer.text);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const input = new InputQueue({ queueUrl: url, endpoint, region: aws.region });
  t.after(() => input.close());
  return { input, calls, figures: () => aws.queueFigures(url) };
}

test('the canary key of a record is an attribute of its message, and a record without one has none', async (t) => {
  const { input, calls } = await queueOf(t);
  const records = [
    { uri: 'a', inputs: { x: [1] }, canaryKey: 'user-1' },
    { uri: 'b', inputs: { x: [1] } },
  ];
  await input.enqueueMany(records);
  await input.enqueue('c', { x: [1] }, { canaryKey: PUNCTUATION, tenant: 'shop' });
  const sent = calls.flat().map(({ MessageBody, MessageGroupId, MessageAttributes = {} }) => {
    const { uri } = JSON.parse(MessageBody) as { uri: string };
    const names = Object.keys(MessageAttributes).sort();
    return [
      uri,
      { names, key: MessageAttributes['canary-key']?.StringValue, tenant: MessageGroupId },
    ] as const;
  });
  assert.deepEqual(Object.fromEntries(sent), {
    a: { names: ['canary-key', 'identity'], key: 'user-1', tenant: undefined },
    b: { names: ['identity'], key: undefined, tenant: undefined },
    c: { names: ['canary-key', 'identity'], key: PUNCTUATION, tenant: 'shop' },
  });
});

test('a record with a delay waits in SQS, its expiresAfter is an attribute, and records without have neither', async (t) => {
  const { input, calls, figures } = await queueOf(t);
  await input.enqueue('a', { x: [1] }, { expiresAfter: 1_209_600, delaySeconds: 900 });
  await input.enqueueMany([
    { uri: 'b', inputs: { x: [1] }, delaySeconds: 0, expiresAfter: 1 },
    { uri: 'c', inputs: { x: [1] } },
  ]);
  const { waiting, delayed } = figures();
  assert.deepEqual({ waiting, delayed }, { waiting: 2, delayed: 1 });
  const expires = calls.flat().map(({ MessageBody, MessageAttributes }) => {
    const { uri } = JSON.parse(MessageBody) as { uri: string };
    return [uri, MessageAttributes?.['expiresAfter']?.StringValue] as const;
  });
  assert.deepEqual(Object.fromEntries(expires), { a: '1209600', b: '1', c: undefined });
});

test('a time at which a record cannot run is refused with its uri, and nothing is sent', async () => {
  const input = new InputQueue({ queueUrl: 'http://127.0.0.1:9/0/q', region: 'local' });
  for (const [wrong, message] of [
    [{ delaySeconds: 901 }, /^delaySeconds: expected whole seconds from 0 to 900, got 901/],
    [{ expiresAfter: 0.5 }, /^expiresAfter: expected whole seconds from 1 to 1209600, got 0\.5/],
    [{ expiresAfter: 5, delaySeconds: 5 }, /the record would never run/],
  ] as const)
    await assert.rejects(input.enqueue('a', { x: [1] }, wrong), { code: 'bad_request', uri: 'a', message });
  await input.close();
});

test('over HTTPS the times of a record are in the query, beside its target', async () => {
  const seen: string[] = [];
  const input = new InputQueue({
    frontendUrl: 'https://api.example',
    auth: 'none',
    fetch: async (url) => {
      seen.push(new URL(url).search);
      return Response.json({});
    },
  });
  await input.enqueue('a', { x: [1] }, { notify: 'shop', expiresAfter: 60, delaySeconds: 5 });
  await input.enqueue('a', { x: [1] });
  assert.deepEqual(seen, ['?notify=shop&expiresAfter=60&delaySeconds=5', '']);
});

test('over HTTPS the canary key is a header of records and predictions', async () => {
  const seen: (readonly [path: string, key: string | null])[] = [];
  const input = new InputQueue({
    frontendUrl: 'https://api.example',
    auth: 'none',
    fetch: async (url, init) => {
      const { pathname } = new URL(url);
      seen.push([pathname, new Headers(init?.headers).get('canary-key')]);
      return Response.json({ predictions: ['{value=[1]}'] });
    },
  });
  const request = { instances: [{ x: 1 }] };
  await input.enqueue('a', { x: [1] }, { canaryKey: 'user-1' });
  await input.enqueue('a', { x: [1] });
  await input.predict(request, { canaryKey: 'k'.repeat(128) });
  await input.predict(request);
  assert.deepEqual(seen, [
    ['/predictions', 'user-1'],
    ['/predictions', null],
    ['/predict', 'k'.repeat(128)],
    ['/predict', null],
  ]);
});

const PUNCTUATION = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~';

test('the tenant of a record is its message group, in batches too, and a record without one has none', async (t) => {
  const { input, calls } = await queueOf(t);
  const records = Array.from({ length: 25 }, (_, i) => ({
    uri: `r${i}`,
    inputs: { x: [i] },
    ...(i % 5 === 0 ? {} : { tenant: `tenant-${i % 5}` }),
  }));
  assert.equal(await input.enqueueMany(records), 25);
  await input.enqueue('one', { x: [1] }, { tenant: PUNCTUATION });
  await input.enqueue('long', { x: [1] }, { tenant: 'a'.repeat(128) });
  const groups = calls.flat().map(({ MessageBody, MessageGroupId }) => {
    return [(JSON.parse(MessageBody) as { uri: string }).uri, MessageGroupId] as const;
  });
  assert.deepEqual(Object.fromEntries(groups), {
    ...Object.fromEntries(records.map(({ uri, tenant }) => [uri, tenant])),
    one: PUNCTUATION,
    long: 'a'.repeat(128),
  });
  assert.ok(calls.some(({ length }) => length > 1));
  const withoutTenant = calls.flat().filter((entry) => !('MessageGroupId' in entry));
  assert.equal(withoutTenant.length, 5);
});

test('what no message group can be is refused with the uri, and nothing is sent', async () => {
  const input = new InputQueue({ queueUrl: 'http://127.0.0.1:9/0/q', region: 'local' });
  for (const tenant of ['', 'a b', 'ü', 'a\n', 'a'.repeat(129), 7 as unknown as string]) {
    await assert.rejects(input.enqueue('a', { x: [1] }, { tenant }), {
      code: 'bad_request',
      uri: 'a',
      message: /^tenant: expected 1 to 128 letters/,
    });
  }
  await input.close();
});

test('over HTTPS there is no queue to share, so a tenant is refused rather than passed over', async () => {
  const input = new InputQueue({ frontendUrl: 'https://api.example', fetch: async () => Response.json({}) });
  await assert.rejects(input.enqueue('a', { x: [1] }, { tenant: 'b' }), {
    code: 'bad_config',
    message: /tenant.*queueUrl/,
  });
});

test('a canary key that is none is refused before anything is sent', async () => {
  const never = async () => assert.fail('something was sent');
  const input = new InputQueue({ frontendUrl: 'https://api.example', auth: 'none', fetch: never });
  for (const canaryKey of ['', 'a b', 'ü', 'a\n', 'a'.repeat(129), 7 as unknown as string]) {
    const refused = { code: 'bad_request', message: /^canary-key: expected 1 to 128 letters/ };
    await assert.rejects(input.enqueue('a', { x: [1] }, { canaryKey }), { ...refused, uri: 'a' });
    await assert.rejects(input.predict({ instances: [{}] }, { canaryKey }), refused);
  }
});
