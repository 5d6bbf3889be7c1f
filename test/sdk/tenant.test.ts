/** Tenants and canary keys of records in the queue, at an SQS in this process. */
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
  return { input, calls };
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
