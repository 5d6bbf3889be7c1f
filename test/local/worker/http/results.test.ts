/** Outcomes that wait for their clients: how many, how long, and how much of them one answer has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeValue } from '../../../../lib/codecs/values/value-frame.ts';
import { LIMITS } from '../../../../lib/contract/limits.ts';
import type { WorkerValue } from '../../../../lib/contract/worker-values.ts';
import type { ItemOutcome } from '../../../../lib/http/worker/frames.ts';
import { LaterResults, RESULT_LIMITS, resultsRoute } from '../../../../local/worker/results.ts';
import { readFrame } from './service.ts';

const TTL_MS = 1_000;

function openResults() {
  const clock = { ms: 1_700_000_000_000 };
  const results = new LaterResults({ ttlMs: TTL_MS, now: () => clock.ms });
  const put = async (outcome: ItemOutcome, { identity = 'a', id = '1', bytes = 1 } = {}) => {
    results.run({ identity, id, bytes }, async () => outcome);
    await results.idle();
  };
  const ask = async (cursor = 0, identity = 'a') => {
    const { body = '' } = await results.after(identity, cursor, 0);
    const { header, outcomes } = await readFrame(new Response(Buffer.from(body, 'base64')));
    return { cursor: Number(header['cursor']), ids: outcomes.map(({ id }) => id), outcomes };
  };
  return { clock, results, put, ask };
}

const value = (of: WorkerValue): ItemOutcome => ({ value: of });

test('results go when their time is over, and those of another identity are never given', async () => {
  const { clock, put, ask } = openResults();
  await put(value(1), { id: 'old' });
  clock.ms += TTL_MS - 1;
  await put(value(2), { id: 'new' });
  assert.deepEqual((await ask()).ids, ['old', 'new']);
  assert.deepEqual((await ask(0, 'b')).ids, []);
  clock.ms += 1;
  assert.deepEqual((await ask()).ids, ['new']);
});

test('an item that has its outcome waits no more, and what is too much beside those that wait is refused', async () => {
  const { results, put } = openResults();
  for (let i = 0; i < 2; i++) await put(value(1), { bytes: RESULT_LIMITS.waitingBytes });
  const { promise, resolve } = Promise.withResolvers<ItemOutcome>();
  const run = (bytes: number) => results.run({ identity: 'a', id: '1', bytes }, () => promise);
  run(RESULT_LIMITS.waitingBytes - 1);
  run(1);
  assert.throws(() => run(1), { code: 'rate_limited', retryAfterSeconds: 1 });
  resolve(value(1));
  await results.idle();
  for (let i = 0; i < RESULT_LIMITS.waiting; i++) run(0);
  assert.throws(() => run(0), { code: 'rate_limited' });
  await results.idle();
  run(0);
  await results.idle();
});

test('a cursor of an earlier start finds what came since', async () => {
  const first = openResults();
  await first.put(value(1));
  const { cursor } = await first.ask();
  const second = openResults();
  second.clock.ms += 1;
  const later = new LaterResults({ ttlMs: TTL_MS, now: () => second.clock.ms });
  later.run({ identity: 'a', id: '2', bytes: 1 }, async () => value(2));
  await later.idle();
  const { body = '' } = await later.after('a', cursor, 0);
  const { outcomes } = await readFrame(new Response(Buffer.from(body, 'base64')));
  assert.deepEqual(outcomes, [{ id: '2', value: 2 }]);
});

test('what comes after a start with an earlier clock comes after a cursor of before', async () => {
  const { clock, results, put, ask } = openResults();
  const ahead = (clock.ms + 3_600_000) * 1_000;
  assert.deepEqual(await ask(ahead), { cursor: ahead, ids: [], outcomes: [] });
  await put(value(1));
  assert.deepEqual((await ask(ahead)).ids, ['1']);
  // Larger than any time: a number that no service gave.
  await ask(Number.MAX_SAFE_INTEGER);
  await put(value(2), { id: '2' });
  assert.deepEqual((await ask(ahead)).ids, ['1', '2']);
  results.close();
});

test('the oldest of 10,001 results goes, and an answer has 1,000 of them', async () => {
  const { put, ask } = openResults();
  for (let i = 0; i <= RESULT_LIMITS.results; i++) await put(value(i), { id: String(i) });
  const ids: unknown[] = [];
  for (let cursor = 0; ; ) {
    const page = await ask(cursor);
    if (page.ids.length === 0) break;
    assert.ok(page.ids.length <= 1_000);
    ids.push(...page.ids);
    cursor = page.cursor;
  }
  assert.deepEqual([ids.length, ids[0], ids.at(-1)], [10_000, '1', '10000']);
});

test('an answer has at most 32 MiB, and a larger result is an error', async () => {
  const { put, ask } = openResults();
  const large = Buffer.alloc(20 * 1024 * 1024);
  for (const id of ['1', '2']) await put(value(large), { id });
  await put(value(Buffer.alloc(33 * 1024 * 1024)), { id: '3' });
  const first = await ask();
  assert.deepEqual(first.ids, ['1']);
  const second = await ask(first.cursor);
  assert.deepEqual(second.ids, ['2', '3']);
  assert.equal((second.outcomes[1]?.error as { code: string }).code, 'too_large');
});

test('a result is kept up to where its frame with what is beside it has 32 MiB', async () => {
  const { put, ask } = openResults();
  const most = LIMITS.frameBytes - 512;
  const around = encodeValue(new Uint8Array(1_000)).byteLength - 1_000;
  // The length of the block has more digits.
  const room = most - around - String(most).length + 4;
  assert.equal(encodeValue(new Uint8Array(room)).byteLength, most);
  await put(value(new Uint8Array(room)), { id: 'kept' });
  await put(value(new Uint8Array(room + 1)), { id: 'over' });
  const { outcomes, cursor } = await ask();
  assert.deepEqual(
    outcomes.map(({ id, error }) => [id, error]),
    [['kept', undefined]],
  );
  const code = 'too_large';
  const message = `the result has ${most + 1} bytes, over the limit of ${LIMITS.frameBytes} (frameBytes)`;
  assert.deepEqual((await ask(cursor)).outcomes, [{ id: 'over', error: { code, message } }]);
});

test('the results that are kept have at most 256 MiB', async () => {
  const { put, ask } = openResults();
  const large = Buffer.alloc(31 * 1024 * 1024);
  for (let i = 0; i < 9; i++) await put(value(large), { id: String(i) });
  assert.deepEqual((await ask()).ids, ['1']);
});

test('results that are too many blocks for one frame come in several', async () => {
  const { put, ask } = openResults();
  const dict = Object.fromEntries(
    Array.from({ length: 30_000 }, (_, i) => [
      i,
      { dtype: 'uint8' as const, shape: [], data: Uint8Array.of(1) },
    ]),
  );
  for (const id of ['1', '2', '3']) await put(value(dict), { id });
  const first = await ask();
  assert.deepEqual(first.ids, ['1', '2']);
  assert.deepEqual((await ask(first.cursor)).ids, ['3']);
});

test('long errors come in several answers', async () => {
  const { put, ask } = openResults();
  const error = { code: 'model_failed' as const, message: 'x'.repeat(200_000) };
  for (const id of ['1', '2']) await put({ error }, { id });
  const first = await ask();
  assert.deepEqual(first.ids, ['1']);
  assert.deepEqual((await ask(first.cursor)).outcomes, [{ id: '2', error }]);
});

test('of more than 512 items that wait, or 256 MiB of them, the last is refused', async () => {
  const { results } = openResults();
  let finish: (outcome: ItemOutcome) => void = () => undefined;
  const finished = new Promise<ItemOutcome>((resolve) => {
    finish = resolve;
  });
  const add = (bytes: number) => results.run({ identity: 'a', id: '1', bytes }, () => finished);
  add(RESULT_LIMITS.waitingBytes - 511);
  for (let i = 0; i < 510; i++) add(1);
  assert.throws(() => add(2), { code: 'rate_limited' });
  add(1);
  assert.throws(() => add(0), { code: 'rate_limited' });
  finish(value(null));
  await results.idle();
  add(RESULT_LIMITS.waitingBytes);
});

test('an item that waited for a quarter of an hour is over', async () => {
  const { clock, results } = openResults();
  const over: boolean[] = [];
  results.run({ identity: 'a', id: '1', bytes: 1 }, async (isOver) => {
    over.push(isOver());
    clock.ms += RESULT_LIMITS.itemMs + 1;
    over.push(isOver());
    return value(null);
  });
  await results.idle();
  assert.deepEqual(over, [false, true]);
});

test('who waits when the service closes is answered', async () => {
  const { results } = openResults();
  const waiting = results.after('a', 0, 20_000);
  results.close();
  assert.equal((await waiting).statusCode, 200);
});

test('of those who wait for one identity, each leaves alone, and the others get the result that comes', async () => {
  const { results, put } = openResults();
  const [leaves, stays] = [new AbortController(), new AbortController()];
  const gone = results.after('a', 0, 600_000, leaves.signal);
  const waiting = results.after('a', 0, 600_000, stays.signal);
  leaves.abort();
  assert.equal((await gone).statusCode, 200);
  await put(value(1), { identity: 'b' });
  await put(value(1));
  const late = new Promise<'late'>((resolve) => setImmediate(() => setImmediate(() => resolve('late'))));
  const found = await Promise.race([waiting, late]);
  stays.abort();
  assert.notEqual(found, 'late');
  const { body = '' } = await waiting;
  const { outcomes } = await readFrame(new Response(Buffer.from(body, 'base64')));
  assert.deepEqual(
    outcomes.map(({ id }) => id),
    ['1'],
  );
});

test('a request waits that says for how long, and others take a place among the usual ones', () => {
  const { waits } = resultsRoute(openResults().results, () => undefined);
  const asked = ['', 'after=1', 'wait=0', 'wait=', 'wait=x', 'wait=-1', 'wait=1', 'after=1&wait=20'];
  assert.deepEqual(
    asked.filter((query) => waits?.({}, query)),
    ['wait=1', 'after=1&wait=20'],
  );
});
