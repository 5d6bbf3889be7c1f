/** Results that are too large for Redis: their pointers, who takes them and when, and what S3 and older clients do about them. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { decodeArrowResult } from '../../../lib/codecs/arrow/result.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { idOfLarge, type Result } from '../../../lib/contract/result.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import type { WorkerValue } from '../../../lib/contract/worker-values.ts';
import { FAILURES } from '../../../lib/observe/failures.ts';
import type { FinishedRecord } from '../../../lib/pipeline/decode.ts';
import type { Filter } from '../../../lib/pipeline/postprocess.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { parseResult, withContent } from '../../../lib/results/fields.ts';
import type { LargeStore } from '../../../lib/results/large.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { enqueued } from '../../support/enqueue.ts';
import { redisUrl } from '../../support/redis.ts';

/** An S3 in memory, which refuses the uris in `away`. */
function memoryStore(away: readonly string[] = []) {
  const objects = new Map<string, { readonly bytes: Uint8Array; readonly json: string }>();
  const large: LargeStore = {
    async put({ form, bytes }, jsonAt) {
      const json = [...jsonAt(5)].join('');
      const { uri } = JSON.parse(json) as { uri: string };
      if (away.includes(uri)) throw new ServingError('results_unavailable', 'S3 is away');
      const key = `results/job/${randomUUID()}`;
      objects.set(key, { bytes, json });
      const digest = { bytes: bytes.byteLength, sha256: '' };
      return { bucket: 'b', key, form, ...digest, json: digest, finishedAt: 5 };
    },
  };
  return { large, objects };
}

function open(t: TestContext, url: string) {
  const connection = new RedisConnection(url);
  const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
  t.after(() => results.close());
  return { results, redis: connection.redis };
}

const numbers = (length: number, value = 1): Outcome => ({
  ok: true,
  outputs: [
    { name: 'y', dtype: 'float32', shape: [length], data: new Float32Array(length).fill(value) },
    { name: 'n', dtype: 'int64', shape: [1], data: BigInt64Array.of(2n ** 60n) },
  ],
});
const LARGE = LIMITS.resultBytes / 4;
const finished = (uri: string, outcome: Outcome, sentAt = 1): FinishedRecord => ({
  id: `${uri}-${sentAt}`,
  uri,
  enqueue: enqueued(`e${sentAt}`, sentAt),
  outcome,
});
const take = (results: ResultStore, uri: string, result: Result | undefined) =>
  results.take(uri, { fetched: result?.large && idOfLarge(result.large) });

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a large result stays for all who ask, and one of those who fetched it takes it`, async (t) => {
    const url = await redisUrl(t, preferEmbedded);
    const [one, two] = [open(t, url).results, open(t, url).results];
    const { large, objects } = memoryStore();
    await resultSink(one, { large }).save([finished('a', numbers(LARGE)), finished('b', numbers(3))], 'v7');
    const [read, first, second] = [await one.get('a'), await one.take('a'), await two.take('a')];
    assert.deepEqual([read, first], [first, second]);
    assert.deepEqual(read?.outputs, []);
    assert.deepEqual([read?.model, read?.identity, read?.finishedAt], ['v7', 'e1', 5]);
    assert.ok(read?.large && objects.has(read.large.key));
    assert.equal(await take(two, 'b', read), undefined, 'a small result has no id');
    const taken = await Promise.all([take(one, 'a', read), take(two, 'a', read)]);
    assert.equal(taken.filter(Boolean).length, 1);
    assert.equal(await one.get('a'), undefined);
    assert.equal((await one.get('b'))?.outputs[0]?.data.length, 3);
  });

  test(`${kind}: a page lists a large result once, and an interrupted one lists it again`, async (t) => {
    const { results } = open(t, await redisUrl(t, preferEmbedded));
    const { large } = memoryStore();
    const records = ['a', 'b'].map((uri) => finished(uri, numbers(LARGE)));
    await resultSink(results, { large }).save(records, 'v');
    for await (const { uri } of results.drain()) {
      assert.equal(uri, 'a');
      break;
    }
    const page = await results.takePage(10, 1_000);
    assert.deepEqual(
      page?.map(({ uri }) => uri),
      ['b'],
    );
    assert.equal(await results.takePage(10), undefined);
    assert.ok((await results.get('a'))?.large && (await results.get('b'))?.large);
  });

  test(`${kind}: what was fetched does not take the result of a later enqueue`, async (t) => {
    const { results } = open(t, await redisUrl(t, preferEmbedded));
    const { large, objects } = memoryStore();
    const sink = resultSink(results, { large });
    await sink.save([finished('a', numbers(LARGE, 1), 1)], 'v');
    const before = await results.get('a');
    await sink.save([finished('a', numbers(LARGE, 1), 1)], 'v');
    assert.equal(objects.size, 2, 'a redelivery has objects of its own');
    assert.deepEqual(await results.get('a'), before, 'and changes nothing');
    await sink.save([finished('a', numbers(LARGE, 2), 2)], 'v');
    assert.equal(await take(results, 'a', before), undefined);
    const after = await results.get('a');
    assert.notEqual(after?.large?.key, before?.large?.key);
    assert.ok(await take(results, 'a', after));
  });
}

test('a record whose large result S3 does not take is delivered again, and its neighbours are saved', async (t) => {
  const said = t.mock.method(process.stdout, 'write', () => true);
  const { results } = open(t, await redisUrl(t));
  const { large } = memoryStore(['b']);
  const records = ['a', 'b', 'c'].map((uri) => finished(uri, numbers(uri === 'c' ? 3 : LARGE)));
  assert.deepEqual(await resultSink(results, { large, observer: FAILURES }).save(records, 'v'), ['b-1']);
  assert.ok(said.mock.calls.some((call) => String(call.arguments[0]).includes('S3 is away')));
  said.mock.restore();
  assert.ok((await results.get('a'))?.large);
  assert.equal(await results.get('b'), undefined);
  assert.equal((await results.get('c'))?.outputs.length, 2);
});

test('without S3 a large result fails, and so does one that is too large for S3', async (t) => {
  const { results } = open(t, await redisUrl(t));
  await resultSink(results).save([finished('a', numbers(LARGE))], 'v');
  await assert.rejects(results.get('a'), { code: 'too_large', uri: 'a', message: /\(resultBytes\)/ });
  const { large, objects } = memoryStore();
  const data = new Uint8Array(LIMITS.largeResultBytes + 1);
  const outcome: Outcome = { ok: true, outputs: [{ name: 'y', dtype: 'uint8', shape: [data.length], data }] };
  await resultSink(results, { large }).save([finished('b', outcome)], 'v');
  await assert.rejects(results.get('b'), { code: 'too_large', uri: 'b', message: /\(largeResultBytes\)/ });
  assert.equal(objects.size, 0);
});

test('each form comes back as it was: tensors, text, bytes and values', async (t) => {
  const { results } = open(t, await redisUrl(t));
  const bytes = new Uint8Array(LIMITS.resultBytes).fill(7);
  const value: WorkerValue = { list: [Float32Array.of(1, Number.POSITIVE_INFINITY).length, 'x'], bytes };
  const valued = (given: WorkerValue): Outcome => ({ ok: true, outputs: [], value: given });
  const read = async (outcome: Outcome, filter?: Filter) => {
    const { large, objects } = memoryStore();
    await resultSink(results, { large, filter }).save([finished('a', outcome, ++sent)], 'v');
    const result = await results.get('a');
    assert.ok(result?.large);
    const object = objects.get(result.large.key) ?? assert.fail();
    return { form: result.large.form, whole: withContent(result, result.large.form, object.bytes), object };
  };
  let sent = 0;
  const outcome = numbers(LARGE, Number.NEGATIVE_INFINITY);
  const tensors = await read(outcome);
  assert.equal(tensors.form, 'tensors');
  assert.deepEqual(tensors.whole.outputs, outcome.ok && outcome.outputs);
  assert.equal(tensors.whole.large, undefined);
  const text = await read(numbers(LARGE), { kind: 'pickTopN', n: LARGE });
  assert.deepEqual([text.form, (text.whole.filtered as number[][])[0]?.length], ['text', LARGE]);
  const raw = await read(valued(bytes));
  assert.deepEqual([raw.form, raw.whole.value], ['bytes', bytes]);
  const mixed = await read(valued(value));
  assert.deepEqual([mixed.form, mixed.whole.value], ['value', value]);
  assert.equal((JSON.parse(mixed.object.json) as { value: { list: unknown[] } }).value.list[1], 'x');
});

test('the client of Analytics Zoo gets no numbers, but a stream whose error names the size', async (t) => {
  const { results, redis } = open(t, await redisUrl(t));
  const { large, objects } = memoryStore();
  await resultSink(results, { large }).save([finished('a', numbers(LARGE))], 'v');
  const stored = Buffer.from((await redis.hget('cluster-serving_job:a', 'value')) ?? '', 'base64');
  const [object] = objects.values();
  // pyarrow has to find the time zone of the column `shape`, and names it in its error.
  const said = stored.toString('latin1');
  assert.match(
    said,
    new RegExp(`the result has ${object?.bytes.length} bytes, over the 1048576 of one in Redis`),
  );
  assert.match(said, /GET \/predictions\?uri=/);
  assert.throws(() => decodeArrowResult(stored), { code: 'bad_request' });
});

test('a pointer that was changed to name something else is refused', () => {
  for (const key of ['models/job/current.json', 'results/job/../../models/x', 'results/job/x', '']) {
    const large = JSON.stringify({ key, bucket: 'b' });
    const fields = { status: 'succeeded', value: 'x', large };
    assert.throws(() => parseResult('a', fields), { code: 'internal' }, key);
  }
});
