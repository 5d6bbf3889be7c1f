/** POST /predictions and the reads by uri, through their handler. What is refused here is never sent. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { decodeMessage } from '../../lib/codecs/message.ts';
import type { ErrorCode } from '../../lib/contract/errors.ts';
import { assertRefusal, bodyOf, type DataCase, watchMemory } from './hostile/cases.ts';
import { deliver, openStore, predictionsEndpoint } from './hostile/endpoints.ts';
import { GOOD, Models } from './hostile/models.ts';
import { ARROW, ARROW_UNFIT, goodArrow } from './hostile/tables/arrow.ts';
import { ENVELOPES } from './hostile/tables/messages.ts';
import { goodFile, SAFETENSORS } from './hostile/tables/safetensors.ts';
import { STRUCTURE, SYNTAX } from './hostile/tables/syntax.ts';
import { ENDPOINT_CASES, ODD_URIS, URIS } from './hostile/tables/uris.ts';

type Case = readonly [name: string, body: () => string | Uint8Array, code: ErrorCode, message: RegExp];

function group(title: string, cases: readonly Case[]): void {
  test(title, async (t: TestContext) => {
    const { endpoint, sent } = predictionsEndpoint();
    const assertMemory = watchMemory();
    for (const [name, body, code, message] of cases) {
      await t.test(name, async () => assertRefusal(await endpoint(body()), code, message));
    }
    assert.deepEqual(sent, [], 'nothing of it went into the queue');
    const { status, body } = await endpoint(`{"uri":"next","instances":[${GOOD.pair}]}`);
    const { identity, ...rest } = body as Record<string, unknown>;
    assert.deepEqual([status, rest, sent.length], [202, { uri: 'next' }, 1]);
    assert.match(String(identity), /^[\da-f-]{36}$/);
    assertMemory();
  });
}

const wire = (serde: string, cases: readonly DataCase[]): Case[] =>
  cases.map(([name, data, code, message]) => [
    name,
    () => JSON.stringify({ uri: 'u', serde, data: Buffer.from(data()).toString('base64') }),
    code,
    message,
  ]);

group(
  'a body that is no JSON is refused',
  SYNTAX.map(([name, body, code, message]): Case => [name, () => bodyOf(body), code, message]),
);
group(
  'a body without proper instances is refused',
  STRUCTURE.map(([name, body, code, message]): Case => [name, () => bodyOf(body), code, message]),
);
group('unreadable Arrow is refused', wire('arrow', ARROW));
group('unreadable safetensors are refused', wire('safetensors', SAFETENSORS));
group(
  'a record that is none is refused',
  ENVELOPES.map(([name, fields, code, message]): Case => {
    return [name, () => JSON.stringify({ uri: 'u', ...fields }), code, message];
  }),
);

group(
  'uris that do not fit their instances, and instances that no message can hold, are refused',
  ENDPOINT_CASES.map(([name, body, code, message]): Case => [name, () => bodyOf(body), code, message]),
);

group(
  'a bad uri of a record is refused',
  URIS.map(([name, uri, message]): Case => {
    return [name, () => JSON.stringify({ uri, instances: [JSON.parse(GOOD.pair)] }), 'bad_request', message];
  }),
);
group(
  'a bad uri among uris is refused',
  URIS.map(([name, uri, message]): Case => {
    const instances = [1, 2].map(() => JSON.parse(GOOD.pair) as unknown);
    return [name, () => JSON.stringify({ uris: ['fine', uri], instances }), 'bad_request', message];
  }),
);

test('a bad uri is refused by every route that takes one', async (t) => {
  const { endpoint } = predictionsEndpoint(await openStore(t));
  for (const [name, uri, message] of URIS) {
    // A query holds texts, and no lone surrogates; what is none arrives as nothing.
    if (typeof uri !== 'string') continue;
    await t.test(name, async () => {
      for (const [method, path] of [
        ['GET', '/predictions'],
        ['GET', '/status'],
        ['POST', '/cancel'],
      ] as const) {
        assertRefusal(await endpoint('', { method, path, query: { uri } }), 'bad_request', message);
      }
      for (const method of ['GET', 'DELETE']) {
        const answer = await endpoint('', { method, path: '/predictions/x', pathParameters: { uri } });
        assertRefusal(answer, 'bad_request', message);
      }
    });
  }
  for (const [method, path] of [
    ['GET', '/predictions'],
    ['GET', '/status'],
    ['POST', '/cancel'],
  ] as const) {
    assertRefusal(await endpoint('', { method, path }), 'bad_request', /^uri: .* got nothing/);
  }
});

test('an odd uri has its own result, and never that of another uri or job', async (t) => {
  const store = await openStore(t);
  const { endpoint } = predictionsEndpoint(store);
  const runner = await new Models(t).runner('pair');
  const messages = ODD_URIS.map((uri, i) => ({
    id: String(i),
    body: JSON.stringify({ uri, serde: 'stream', data: `{"instances":[{"x":[${i},0]}]}` }),
  }));
  assert.deepEqual(await deliver(store, runner, messages), []);
  await store.connection.redis.hset('cluster-serving_other:u', { status: 'succeeded', value: '[[1,2]]' });
  for (const [i, uri] of ODD_URIS.entries()) {
    await t.test(JSON.stringify(uri).slice(0, 40), async () => {
      const { status, body } = await endpoint('', { method: 'GET', path: '/predictions', query: { uri } });
      assert.equal(status, 200);
      assert.equal(body['uri'], uri);
      assert.deepEqual((body['outputs'] as { data: number[] }[])[0]?.data, [i, 0]);
    });
  }
  for (const uri of ['other:u', '*:u', '../other:u', 'bad-input:a:b', 'A:B', 'a:b ', 'cat-1']) {
    const answer = await endpoint('', { method: 'GET', path: '/predictions', query: { uri } });
    assertRefusal(answer, 'not_found', /no result under this uri/);
  }
});

test('what no model is needed for is refused at once; the rest is its result', async () => {
  const { endpoint, sent } = predictionsEndpoint();
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const accepted = [
    { serde: 'arrow', data: base64(goodArrow()) },
    { serde: 'safetensors', data: base64(goodFile()) },
    ...ARROW_UNFIT.map(([, data]) => ({ serde: 'arrow', data: base64(data()) })),
    { serde: 'stream', data: '{"instances":[{"x":"no image, or a text"}]}' },
  ];
  for (const fields of accepted) {
    const { status } = await endpoint(JSON.stringify({ uri: 'u', ...fields }));
    assert.equal(status, 202);
  }
  assert.equal(sent.length, accepted.length);
  for (const message of sent) assert.equal(decodeMessage(message).uri, 'u');
});
