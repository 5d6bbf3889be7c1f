/**
 * The batch handler with real models and a real Redis: a bad record gets exactly one result, its failure, and its good
 * neighbours succeed.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { decodeMessage } from '../../lib/codecs/message.ts';
import type { ErrorCode } from '../../lib/contract/errors.ts';
import { putText } from '../../lib/s3/objects.ts';
import { PayloadStore } from '../../lib/s3/payloads.ts';
import { startAws } from '../../local/aws/aws.ts';
import {
  assertRefusal,
  type DataCase,
  type InstanceCase,
  type Refusal,
  textOf,
  watchMemory,
} from './hostile/cases.ts';
import {
  deliver,
  type Message,
  openStore,
  type Store,
  storedFailure,
  storedUris,
} from './hostile/endpoints.ts';
import { GOOD, type ModelName, Models } from './hostile/models.ts';
import { ARROW, ARROW_UNFIT, goodArrow } from './hostile/tables/arrow.ts';
import { BASE64, IMAGES } from './hostile/tables/images.ts';
import { ENVELOPES, POINTERS, UNADDRESSED } from './hostile/tables/messages.ts';
import { goodFile, SAFETENSORS, SAFETENSORS_UNFIT } from './hostile/tables/safetensors.ts';
import { SPARSE } from './hostile/tables/sparse.ts';
import { POSITIONS, VALUES } from './hostile/tables/values.ts';

interface BadRecord {
  readonly name: string;
  readonly model: ModelName;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly code: ErrorCode;
  readonly message: RegExp;
}

const streamOf = (instance: string) => ({ serde: 'stream', data: `{"instances":[${instance}]}` });
const messageOf = (uri: string, fields: Readonly<Record<string, unknown>>): Message => ({
  id: `id of ${uri}`,
  body: JSON.stringify({ uri, ...fields }),
});

/** Bad records one by one between good ones, all of one model in one event. */
async function deliverAll(t: TestContext, models: Models, store: Store, records: readonly BadRecord[]) {
  for (const model of new Set(records.map((record) => record.model))) {
    const bad = records.filter((record) => record.model === model);
    const good = streamOf(GOOD[model]);
    const messages = bad.flatMap(({ name, fields }) => [
      messageOf(`bad ${name}`, fields),
      messageOf(`good after ${name}`, good),
    ]);
    const returned = await deliver(store, await models.runner(model), messages);
    assert.deepEqual(returned, [], 'nothing is delivered again');
    for (const { name, code, message } of bad) {
      await t.test(name, async () => {
        assertRefusal((await storedFailure(store, `bad ${name}`)) as Refusal, code, message);
        assert.equal(await storedFailure(store, `good after ${name}`), undefined);
      });
    }
  }
  const expected = records.flatMap(({ name }) => [`bad ${name}`, `good after ${name}`]);
  assert.deepEqual(await storedUris(store), expected.sort());
}

function group(title: string, records: () => readonly BadRecord[]): void {
  test(title, async (t: TestContext) => {
    const assertMemory = watchMemory();
    await deliverAll(t, new Models(t), await openStore(t), records());
    assertMemory();
  });
}

const ofInstances = (cases: readonly InstanceCase[]) => (): BadRecord[] =>
  cases.map(([name, model, instance, code, message]) => ({
    name,
    model,
    fields: streamOf(textOf(instance)),
    code,
    message,
  }));

const ofData = (serde: string, cases: readonly DataCase[]) => (): BadRecord[] =>
  cases.map(([name, data, code, message]) => ({
    name,
    model: 'pair',
    fields: { serde, data: Buffer.from(data()).toString('base64') },
    code,
    message,
  }));

group('values that do not fit fail their record and no other', ofInstances([...VALUES, ...POSITIONS]));
group('sparse tensors that do not fit fail their record and no other', ofInstances(SPARSE));
group('broken base64 fails its record and no other', ofInstances(BASE64));
group('images that cannot be decoded fail their record and no other', ofInstances(IMAGES));
group('unreadable Arrow fails its record and no other', ofData('arrow', ARROW));
group('Arrow that is no input of the model fails its record and no other', ofData('arrow', ARROW_UNFIT));
group('unreadable safetensors fail their record and no other', ofData('safetensors', SAFETENSORS));
group(
  'safetensors that are no input of the model fail their record and no other',
  ofData('safetensors', SAFETENSORS_UNFIT),
);
group('a message that is no record fails, under its uri, and no other does', () =>
  [...ENVELOPES, ...POINTERS].map(([name, fields, code, message]) => ({
    name,
    model: 'pair',
    fields,
    code,
    message,
  })),
);

test('a good record of every wire is served', async (t) => {
  const store = await openStore(t);
  const runner = await new Models(t).runner('pair');
  const messages = [
    messageOf('arrow', { data: Buffer.from(goodArrow()).toString('base64') }),
    messageOf('url-safe', { data: Buffer.from(goodArrow()).toString('base64url') }),
    messageOf('safetensors', { serde: 'safetensors', data: Buffer.from(goodFile()).toString('base64') }),
    messageOf('stream', streamOf(GOOD.pair)),
  ];
  assert.deepEqual(await deliver(store, runner, messages), []);
  for (const uri of ['arrow', 'url-safe', 'safetensors', 'stream']) {
    assert.deepEqual((await store.results.get(uri))?.outputs[0]?.data, Float32Array.of(1, 2));
  }
});

test('a message without a readable uri goes back by its id, and its neighbours succeed', async (t) => {
  const store = await openStore(t);
  const runner = await new Models(t).runner('pair');
  const bodies = UNADDRESSED.map(([, body]) => textOf(body));
  const messages = bodies.flatMap((body, i) => [
    { id: `bad ${i}`, body },
    messageOf(`good ${i}`, streamOf(GOOD.pair)),
  ]);
  const silent = t.mock.method(console, 'error', () => undefined);
  const returned = await deliver(store, runner, messages);
  silent.mock.restore();
  assert.deepEqual(
    returned,
    bodies.map((_, i) => `bad ${i}`),
  );
  assert.deepEqual(await storedUris(store), bodies.map((_, i) => `good ${i}`).sort());
  for (const [i, [name, , message, code = 'bad_request']] of UNADDRESSED.entries()) {
    await t.test(name, () => {
      assert.throws(() => decodeMessage(bodies[i] as string), { code, message });
    });
  }
});

test('of a uri that is given twice, in one message or in two, one result is stored', async (t) => {
  const store = await openStore(t);
  const runner = await new Models(t).runner('pair');
  const twice = [
    { id: '1', body: '{"uri":"first","uri":"last","data":"***"}' },
    messageOf('again', { data: '***' }),
    messageOf('again', streamOf(GOOD.pair)),
  ];
  assert.deepEqual(await deliver(store, runner, twice), []);
  assert.deepEqual(await storedUris(store), ['again', 'last']);
  assertRefusal((await storedFailure(store, 'again')) as Refusal, 'bad_request', /^base64/);
});

test('a payload in S3 that cannot be used fails the record that points at it', async (t) => {
  const store = await openStore(t);
  const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const aws = await startAws({ port: 0, log: silent });
  t.after(() => aws.close());
  await aws.createBucket('bucket');
  const put = (key: string, text: string) =>
    putText(aws.s3, { bucket: 'bucket', key: `payloads/bad-input/${key}` }, text);
  const point = (key: string) => ({ pointer: `payloads/bad-input/${key}` });
  const LIMIT = 32 * 1024 * 1024;
  const good = (uri: string) => JSON.stringify({ uri, ...streamOf(GOOD.pair) });
  await Promise.all([
    put('large', `{"uri":"large","data":"${'A'.repeat(LIMIT)}"}`),
    put('again', JSON.stringify({ uri: 'again', ...point('good') })),
    put('arrow', '{"uri":"arrow","data":"AAAA"}'),
    put('good', good('good')),
  ]);
  const uris = ['gone', 'large', 'again', 'arrow', 'good'];
  const messages = uris.map((uri) => messageOf(uri, point(uri)));
  const payloads = new PayloadStore(aws.s3, 'bucket', store.job);
  const runner = await new Models(t).runner('pair');
  assert.deepEqual(await deliver(store, runner, messages, payloads), []);
  const expected: readonly (readonly [string, ErrorCode, RegExp])[] = [
    ['gone', 'bad_request', /^the payload payloads\/bad-input\/gone is not there \(any more\)/],
    ['large', 'too_large', /^the record is over the limit of 33554432 bytes/],
    ['again', 'bad_request', /^data: expected a text, got nothing/],
    ['arrow', 'bad_request', /^Arrow stream: /],
  ];
  for (const [uri, code, message] of expected) {
    assertRefusal((await storedFailure(store, uri)) as Refusal, code, message);
  }
  assert.equal(await storedFailure(store, 'good'), undefined);
  assert.deepEqual(await storedUris(store), uris.sort());
});
