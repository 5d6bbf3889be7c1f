import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { isToken, request } from '../../sdk/fetch.ts';
import { inOrder, stoppable } from '../../sdk/http/in-order.ts';
import { type Fetch, OutputQueue, type ServingError } from '../../sdk/index.ts';
import { limited } from '../../sdk/limit.ts';

type Answer = { readonly status?: number; readonly body: unknown };

/** The API that gives these answers, one after the other; the last one again and again. */
function api(...answers: Answer[]) {
  const asked: { readonly url: string; readonly init: RequestInit; readonly at: number }[] = [];
  const fetch: Fetch = async (url, init) => {
    const { status = 200, body } = answers[Math.min(asked.length, answers.length - 1)] as Answer;
    asked.push({ url, init, at: performance.now() });
    return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status });
  };
  return { asked, queue: new OutputQueue({ url: 'https://api.example/', fetch }), fetch };
}

const NOT_YET = { status: 404, body: { error: 'no result', code: 'not_found' } };
const done = (uri: string, ...data: (number | string)[]) => ({
  uri,
  status: 'succeeded',
  model: 'v',
  finishedAt: '2026-11-21T00:00:00.000Z',
  outputs: [{ name: 'y', dtype: 'int64', shape: [data.length], data }],
});

test('a result is read by its uri, with its slashes and question marks, and an int64 keeps every digit', async () => {
  const { asked, queue } = api({ body: done('a', '9007199254740993', 7) });
  const result = await queue.query('a/b?c&d=e');
  assert.equal(new URL(asked[0]?.url ?? '').searchParams.get('uri'), 'a/b?c&d=e');
  assert.deepEqual(result?.outputs[0]?.data, BigInt64Array.of(9007199254740993n, 7n));
});

test('a uri without a result is undefined, a failed record throws its code and uri', async () => {
  assert.equal(await api(NOT_YET).queue.query('a'), undefined);
  const failed = { body: { uri: 'a', status: 'failed', code: 'model_failed', error: 'no' } };
  await assert.rejects(api(failed).queue.query('a'), { code: 'model_failed', uri: 'a', message: 'no' });
  // Codes that also say what a question has no answer to.
  for (const code of ['not_found', 'timeout'] as const) {
    const own = { body: { uri: 'a', status: 'failed', code, error: 'of the record' } };
    const expected = { code, uri: 'a', message: 'of the record' };
    await assert.rejects(api(own).queue.query('a'), expected);
    await assert.rejects(api(own).queue.wait('a', { timeoutMs: 60_000 }), expected);
  }
});

test('a wait asks until its time is up, with a pause, and ends with timeout', async () => {
  const { asked, queue } = api(NOT_YET);
  await assert.rejects(queue.wait('a', { timeoutMs: 300 }), { code: 'timeout', uri: 'a' });
  assert.ok(asked.length >= 2 && asked.length <= 4, `${asked.length} requests`);
});

test('a wait for a service that is silent ends with its limit, however short that is', async (t) => {
  let asked: () => void = () => undefined;
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const fetch: Fetch = (_, { signal }) => {
    asked();
    return new Promise((_resolve, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason as Error));
    });
  };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const waited = new OutputQueue({ url: 'https://api.example', fetch }).wait('a', { timeoutMs: 50 });
  const ended = waited.catch((error: Error) => error.message);
  await isAsked;
  t.mock.timers.tick(50);
  const later = new Promise((resolve) => setImmediate(resolve, 'it still waits'));
  assert.equal(await Promise.race([ended, later]), 'no result after 50 ms');
});

for (const body of ['<html>', 'null', [], {}, { results: 5 }, { results: [1] }, { results: [{}] }]) {
  test(`an answer ${JSON.stringify(body)} is not a result`, async () => {
    const { queue } = api({ body });
    for (const ask of [() => queue.query('a'), () => queue.wait('a'), () => queue.dequeue()])
      await assert.rejects(ask(), { code: 'internal', message: /^the answer of the service cannot be read/ });
  });
}

test('who breaks off a drain finds the rest in the next one', async () => {
  const page = { body: { results: [done('a', 1), done('b', 2)], more: false } };
  const { queue } = api(page, { body: { results: [], more: false } });
  for await (const { uri } of queue.drain()) {
    assert.equal(uri, 'a');
    break;
  }
  const rest: string[] = [];
  for await (const { uri } of queue.drain()) rest.push(uri);
  assert.deepEqual(rest, ['b']);
});

test('dequeue gives what it took when the service goes away meanwhile, and throws when it took nothing', async () => {
  const away = { status: 503, body: { error: 'away', code: 'results_unavailable' } };
  const page = { body: { results: [done('a', 1)], more: true } };
  assert.deepEqual([...(await api(page, away).queue.dequeue()).keys()], ['a']);
  await assert.rejects(api(away).queue.dequeue(), { code: 'results_unavailable' });
});

test('cancel is false when it is too late, and throws anything else', async () => {
  assert.equal(await api({ body: { uri: 'a', status: 'cancelled' } }).queue.cancel('a'), true);
  assert.equal(
    await api({ status: 409, body: { error: 'late', code: 'conflict' } }).queue.cancel('a'),
    false,
  );
  await assert.rejects(api({ status: 500, body: { error: 'x', code: 'internal' } }).queue.cancel('a'), {
    code: 'internal',
  });
});

const STATUSES: readonly (readonly [status: number, body: unknown, code: string])[] = [
  [401, { message: 'Unauthorized' }, 'unauthorized'],
  [403, { message: 'Forbidden' }, 'unauthorized'],
  [413, { message: 'Request Too Long' }, 'too_large'],
  [429, { message: 'Too Many Requests' }, 'rate_limited'],
  [503, { message: 'Service Unavailable' }, 'queue_unavailable'],
  [504, '<html>', 'timeout'],
  [404, { message: 'Not Found' }, 'bad_config'],
  [422, { error: 'no', code: 'model_failed' }, 'model_failed'],
];

for (const [status, body, code] of STATUSES) {
  test(`an answer of ${status} with ${JSON.stringify(body)} is ${code}`, async () => {
    const { fetch } = api({ status, body });
    await assert.rejects(
      request('https://api.example/x', {}, 1_000, undefined, fetch),
      (error: ServingError) => {
        assert.equal(error.code, code);
        assert.equal(/say who calls/.test(error.message), code === 'unauthorized', error.message);
        return true;
      },
    );
  });
}

test('an answer of 64 MiB is taken, and one byte more is too_large', async () => {
  const ask = (bytes: number) => {
    const { fetch } = api({ body: '{}'.padEnd(bytes) });
    return request('https://api.example/x', {}, 60_000, undefined, fetch);
  };
  const limit = 64 * 1024 * 1024;
  assert.deepEqual((await ask(limit)).body, {});
  await assert.rejects(ask(limit + 1), { code: 'too_large', message: /over the limit of 67108864 bytes/ });
});

test('an answer that does not end is read to its limit, and no further', async () => {
  const piece = new Uint8Array(2 ** 20).fill(0x20);
  let read = 0;
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      read += piece.length;
      if (read > 2 ** 28) controller.close();
      else controller.enqueue(piece);
    },
    cancel() {
      isCancelled = true;
    },
  });
  const endless: Fetch = async () => new Response(body);
  await assert.rejects(request('https://api.example/x', {}, 60_000, undefined, endless), {
    code: 'too_large',
  });
  assert.ok(read <= 66 * 2 ** 20, `${read} bytes were read`);
  assert.ok(isCancelled);
});

test('an answer whose length is over the limit is not read', async () => {
  const headers = { 'content-length': String(2 ** 30) };
  let isCancelled = false;
  const body = new ReadableStream({ cancel: () => void (isCancelled = true) });
  const announced: Fetch = async () => new Response(body, { headers });
  await assert.rejects(request('https://api.example/x', {}, 60_000, undefined, announced), {
    code: 'too_large',
  });
  assert.ok(isCancelled);
});

test('a request ends at its time limit as a timeout, and by its signal with the reason', async () => {
  let aborted = 0;
  const silent: Fetch = (_, { signal }) =>
    new Promise((_resolve, reject) => {
      // The limit's own timer keeps no process alive.
      const alive = setTimeout(() => reject(new Error('nothing ended it')), 2_000);
      signal?.addEventListener('abort', () => {
        clearTimeout(alive);
        aborted++;
        reject(signal.reason as Error);
      });
    });
  const ask = (timeoutMs: number, signal?: AbortSignal) =>
    request('https://api.example/x', {}, timeoutMs, signal, silent);
  await assert.rejects(ask(20), { code: 'timeout' });
  const stop = new AbortController();
  const asked = ask(60_000, stop.signal);
  stop.abort(new Error('enough'));
  await assert.rejects(asked, /enough/);
  assert.equal(aborted, 2);
});

test('a call leaves no timer, and no listener at the signal of its caller, however it ends', async (t) => {
  const starts = t.mock.method(globalThis, 'setTimeout');
  const stops = t.mock.method(globalThis, 'clearTimeout');
  const left = new AbortController();
  const limit = { signal: left.signal, timeoutMs: 60_000, what: 'no end in' };
  const never = () => new Promise<never>(() => undefined);
  assert.equal(await limited(limit, async () => 7), 7);
  await assert.rejects(
    limited(limit, () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  await assert.rejects(limited({ ...limit, timeoutMs: 0.5 }, never), {
    code: 'timeout',
    message: 'no end in 1 ms',
  });
  const waiting = limited(limit, never);
  left.abort(new Error('left'));
  await assert.rejects(waiting, /left/);
  await assert.rejects(
    limited(limit, () => assert.fail('it is not begun')),
    /left/,
  );
  assert.deepEqual(getEventListeners(left.signal, 'abort'), []);
  const stopped = new Set(stops.mock.calls.map(({ arguments: [timer] }) => timer));
  assert.equal(starts.mock.callCount(), 4);
  for (const { result } of starts.mock.calls) assert.ok(stopped.has(result));
});

test('what is asked with an identity is answered for it alone, even by a service that ignores it', async () => {
  const identity = 'mine';
  const other = { body: { ...done('a', 1), identity: 'other' } };
  assert.equal(await api(other).queue.query('a', { identity }), undefined);
  assert.deepEqual((await api(other).queue.query('a'))?.identity, 'other');
  assert.equal(await api({ body: { status: 'queued' } }).queue.status('a', { identity }), 'unknown');
  assert.equal(await api({ body: { status: 'queued', identity } }).queue.status('a', { identity }), 'queued');
});

test('a wait asks for the whole seconds that are left, 20 at most', async () => {
  for (const [timeoutMs, seconds] of [
    [60_500, 20],
    [20_999, 20],
    [1_999, 1],
    [0, 0],
  ] as const) {
    const { asked, queue } = api({ body: done('a', 1) });
    await queue.wait('a', { timeoutMs });
    assert.equal(new Headers(asked[0]?.init.headers).get('prefer'), `wait=${seconds}`);
  }
});

test('a queue that is closed ends what it asks', async () => {
  const queue = new OutputQueue({
    url: 'https://api.example',
    fetch: (_, { signal }) =>
      new Promise((_resolve, reject) =>
        signal?.addEventListener('abort', () => reject(signal.reason as Error)),
      ),
  });
  const waiting = queue.query('a');
  await queue.close();
  await assert.rejects(waiting, { code: 'bad_request', message: /was closed/ });
});

test('calls go out in order, a fixed number at a time, and breaking off closes the iterator behind them', async () => {
  const ends: (() => void)[] = [];
  let ended = 0;
  function* numbers() {
    try {
      for (let i = 0; ; i++) yield i;
    } finally {
      ended++;
    }
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const all = inOrder(
    numbers(),
    3,
    (item) => new Promise<number>((resolve) => ends.push(() => resolve(item))),
  );
  const first = all.next();
  await turn();
  assert.equal(ends.length, 3);
  ends[1]?.();
  await turn();
  assert.equal(ends.length, 3);
  ends[0]?.();
  assert.equal((await first).value, 0);
  assert.equal((await all.next()).value, 1);
  await all.return(undefined);
  assert.equal(ended, 1);
  for await (const item of stoppable(numbers(), undefined)) if (item === 2) break;
  assert.equal(ended, 2);
});

test('a token has 16 characters or more, of those that a header takes', () => {
  for (const [text, expected] of [
    ['a'.repeat(16), true],
    ['a'.repeat(15), false],
    ['a'.repeat(512), true],
    ['a'.repeat(513), false],
    ['A.b_c~d+e/f-g012=='.padStart(20, 'x'), true],
    ['aaaa aaaa aaaa aaaa', false],
    ['aaaaaaaa=aaaaaaaa', false],
  ] as const)
    assert.equal(isToken(text), expected, text);
});
