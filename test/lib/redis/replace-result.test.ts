/** What may take the place of a failure, in both kinds of Redis. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { newestKey, resultKey } from '../../../lib/contract/names.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultReplacer } from '../../../lib/redis/replace-result.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { enqueued } from '../../support/enqueue.ts';
import { directClient, PATIENT, redisUrl } from '../../support/redis.ts';

const JOB = 'job';
const fieldsOf = (x: number) =>
  serializeResult(
    { ok: true, outputs: [{ name: 'y', dtype: 'float32', shape: [1], data: Float32Array.of(x) }] },
    undefined,
  );
const failure = (code: 'max_receives_exceeded' | 'bad_input', id = 'm1') =>
  serializeResult(
    { ok: false, error: new ServingError(code, `the record failed 5 times and was archived as ${id}`) },
    undefined,
  );
/** A record, as it is replayed for the first time. */
const record = (identity = 'm1', message = 'the message', sentAt = 1) => ({
  uri: 'u',
  enqueue: enqueued(identity, sentAt, 1),
  message,
});

async function open(t: TestContext, embedded: boolean) {
  const url = await redisUrl(t, embedded);
  const connection = openRedis(url, PATIENT);
  const results = new ResultStore(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  const replacer = new ResultReplacer(connection, { job: JOB, ttlSeconds: 60, now: Date.now });
  const outcome = () =>
    results.get('u').then(
      (result) => result?.outputs[0]?.data[0],
      (error: ServingError) => error.code,
    );
  const fail = (fields: ReturnType<typeof failure>, identity = 'm1', sentAt = 1) =>
    results.save([{ uri: 'u', fields, enqueue: enqueued(identity, sentAt) }], '');
  return { connection, results, states, replacer, outcome, fail };
}

for (const embedded of [false, true]) {
  const kind = embedded ? 'embedded Redis' : 'redis-server';

  test(`${kind}: the failure of this message is replaced once, who waits hears of it, and its claim is done`, async (t) => {
    const { results, states, replacer, outcome, fail } = await open(t, embedded);
    await states.announce({ uri: 'u', identity: 'm1', message: 'the message' });
    await fail(failure('max_receives_exceeded'));
    assert.equal(await replacer.store(record(), fieldsOf(1), 'v1'), 'replaced');
    assert.equal(await outcome(), 1);
    assert.equal((await results.get('u'))?.model, 'v1');
    assert.equal(await states.status('u'), 'succeeded');
    assert.equal(await replacer.store(record(), fieldsOf(2), 'v2'), 'superseded');
    assert.equal(await outcome(), 1);
    assert.deepEqual(
      (await results.takePage(10))?.map(({ uri }) => uri),
      ['u'],
    );
  });

  test(`${kind}: somebody who waits for a uri without a result gets the replayed one`, async (t) => {
    const { results, replacer } = await open(t, embedded);
    const waiting = results.wait('u', { timeoutMs: 20_000 });
    assert.equal(await replacer.store(record(), fieldsOf(3), 'v1'), 'replaced');
    assert.equal((await waiting).outputs[0]?.data[0], 3);
  });

  test(`${kind}: any other failure stays, and a failure of the same record, enqueued earlier or later, is decided by that`, async (t) => {
    const { results, states, replacer, outcome, fail } = await open(t, embedded);
    await fail(failure('bad_input'));
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    await results.take('u').catch(() => undefined);
    await fail(failure('max_receives_exceeded', 'm2'), 'm2', 2);
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), 'max_receives_exceeded');
    // The same payload was enqueued again: its own replay counts, and there is nothing left for the earlier one to do.
    await states.announce({ uri: 'u', identity: 'm2', message: 'the message' });
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'superseded');
    assert.equal(await replacer.store(record('m2', 'the message', 2), fieldsOf(2), ''), 'replaced');
    assert.equal(await outcome(), 2);
  });

  test(`${kind}: a record enqueued later keeps its result, also when that was taken, and a cancelled one stays cancelled`, async (t) => {
    const { results, states, replacer, outcome } = await open(t, embedded);
    await states.announce({ uri: 'u', identity: 'm2', message: 'another message' });
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), undefined);
    await results.save([{ uri: 'u', fields: fieldsOf(9), enqueue: enqueued('m2', 2) }], '');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), 9);
    await results.take('u');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), undefined);
    await states.announce({ uri: 'u', identity: 'm3', message: 'a third message' });
    assert.equal(await states.cancel('u'), true);
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'superseded');
    assert.equal(await outcome(), 'cancelled');
  });

  test(`${kind}: a replay takes the place of an older record's result, and its own message that comes again changes nothing`, async (t) => {
    const { results, replacer, outcome } = await open(t, embedded);
    await results.save([{ uri: 'u', fields: fieldsOf(9), enqueue: enqueued('m0', 0) }], '');
    assert.equal(await replacer.store(record(), fieldsOf(1), 'v'), 'replaced');
    assert.equal(await outcome(), 1);
    assert.equal(await results.save([{ uri: 'u', fields: fieldsOf(5), enqueue: enqueued('m1', 1) }], ''), 0);
    assert.equal(await results.save([{ uri: 'u', fields: fieldsOf(6), enqueue: enqueued('m2', 2) }], ''), 1);
    assert.equal(await outcome(), 6);
  });

  test(`${kind}: free takes the failure away and announces the record, whose replay then counts and is not saved twice`, async (t) => {
    const { results, states, replacer, outcome, fail } = await open(t, embedded);
    await fail(failure('max_receives_exceeded'));
    assert.equal(await replacer.free(record()), 'replaced');
    assert.equal(await outcome(), undefined);
    assert.equal(await states.status('u'), 'queued');
    assert.equal(await results.save([{ uri: 'u', fields: fieldsOf(3), enqueue: enqueued('m1', 1) }], ''), 0);
    const { enqueue } = record();
    assert.equal(await results.save([{ uri: 'u', fields: fieldsOf(4), enqueue }], 'v2'), 1);
    assert.equal(await outcome(), 4);
    assert.equal(await states.status('u'), 'succeeded');
    await results.take('u');
    assert.equal(await results.save([{ uri: 'u', fields: fieldsOf(5), enqueue }], 'v2'), 0);
  });

  test(`${kind}: a record that has its result keeps it when a second message of it is replayed`, async (t) => {
    const { results, replacer, outcome } = await open(t, embedded);
    await results.save([{ uri: 'u', fields: fieldsOf(9), enqueue: enqueued('m1', 1) }], '');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'superseded');
    assert.equal(await outcome(), 9);
  });

  test(`${kind}: without an idempotency record, another result stays, and one of the original server always does`, async (t) => {
    const { connection, results, replacer, outcome, fail } = await open(t, embedded);
    await results.ping();
    const redis = directClient(t, connection);
    await fail(failure('max_receives_exceeded', 'm0'), 'm0', 0);
    await redis.del(newestKey(JOB, 'u'));
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), 'max_receives_exceeded');
    await redis.del(resultKey(JOB, 'u'));
    await fail(failure('max_receives_exceeded', 'm0'), 'm0', 0);
    await redis.del(resultKey(JOB, 'u'));
    await redis.hset(resultKey(JOB, 'u'), 'value', '[[1,0.5]]');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await redis.hget(resultKey(JOB, 'u'), 'value'), '[[1,0.5]]');
  });

  test(`${kind}: of two who replay one record at once, one stores and the other finds it`, async (t) => {
    const { replacer, outcome, fail } = await open(t, embedded);
    await fail(failure('max_receives_exceeded'));
    const handed = await Promise.all([1, 2, 3].map((x) => replacer.store(record(), fieldsOf(x), '')));
    assert.deepEqual(handed.toSorted(), ['replaced', 'superseded', 'superseded']);
    assert.equal(await outcome(), handed.indexOf('replaced') + 1);
  });

  test(`${kind}: a key that holds something else has no result, and a listing passes over it`, async (t) => {
    const { connection, replacer, fail } = await open(t, embedded);
    await fail(failure('max_receives_exceeded'));
    await connection.use((redis) => redis.set(resultKey(JOB, 'odd'), 'x'), false);
    assert.equal(await replacer.store({ ...record(), uri: 'odd' }, fieldsOf(1), ''), 'conflict');
    const [first, second, third] = await replacer.outcomes(['odd', 'u', 'none']);
    assert.deepEqual(
      [first, second?.status, second?.code, third],
      [undefined, 'failed', 'max_receives_exceeded', undefined],
    );
  });
}
