import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpResults } from '../../sdk/http-results.ts';
import { type Fetch, type Outcome, OutputQueue } from '../../sdk/index.ts';

const done = (uri: string) => ({ uri, identity: `id-${uri}`, status: 'succeeded', model: 'v', outputs: [] });
const failed = (uri: string) => ({
  uri,
  identity: `id-${uri}`,
  status: 'failed',
  code: 'model_failed',
  error: 'no',
});

/** The API, which answers about a uri when `come` resolves. */
function api(come: (uri: string) => Promise<object | undefined>) {
  const asked: string[] = [];
  let flying = 0;
  let most = 0;
  const fetch: Fetch = async (url, { method = 'GET', signal }) => {
    const uri = new URL(url).searchParams.get('uri') as string;
    asked.push(`${method} ${uri}`);
    most = Math.max(most, ++flying);
    const stopped = new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason as Error));
    });
    const body = await Promise.race([come(uri), stopped]).finally(() => flying--);
    return body ? Response.json(body) : Response.json({ error: 'no', code: 'not_found' }, { status: 404 });
  };
  return { asked, most: () => most, queue: new OutputQueue({ url: 'https://api.example', fetch }) };
}

const records = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ uri: String(i), identity: `id-${i}` }));
const shown = (outcome: Outcome) => `${outcome.uri} ${'error' in outcome ? outcome.error.code : 'ok'}`;

async function all(outcomes: AsyncIterable<Outcome>): Promise<string[]> {
  const list: string[] = [];
  for await (const outcome of outcomes) list.push(shown(outcome));
  return list;
}

test('results come in the order of the records, at most 16 are waited for, and a failure is in its place', async () => {
  const { queue, most } = api(async (uri) => {
    await new Promise((resolve) => setTimeout(resolve, uri === '0' ? 30 : 1));
    return uri === '3' ? failed(uri) : done(uri);
  });
  const expected = records(50).map(({ uri }) => `${uri} ${uri === '3' ? 'model_failed' : 'ok'}`);
  assert.deepEqual(await all(queue.results(records(50))), expected);
  assert.equal(most(), 16);
});

test('a failure has the identity that its record was given, and none without one', async () => {
  const { queue } = api(async (uri) => failed(uri));
  const identities: string[] = [];
  for await (const { identity } of queue.results([{ uri: 'a', identity: 'id-a' }, 'b']))
    identities.push(identity);
  assert.deepEqual(identities, ['id-a', '']);
});

test('a record without a result in time has the error timeout, and the others their results', async () => {
  const { queue } = api(async (uri) => (uri === '1' ? undefined : done(uri)));
  assert.deepEqual(await all(queue.results(['0', '1', '2'], { timeoutMs: 300 })), [
    '0 ok',
    '1 timeout',
    '2 ok',
  ]);
});

test('take deletes what it gives, a failure too, and asks for an identity', async () => {
  const { queue, asked } = api(async (uri) => (uri === '1' ? failed(uri) : done(uri)));
  assert.deepEqual(await all(queue.results(records(2), { take: true })), ['0 ok', '1 model_failed']);
  assert.deepEqual(asked.toSorted(), ['DELETE 0', 'DELETE 1', 'GET 0', 'GET 1']);
  await assert.rejects(all(queue.results(['a'], { take: true })), { code: 'bad_request' });
});

test('a record that is taken is gone from the service when its result, or its error, is here', async () => {
  for (const body of [done, failed]) {
    let isGone = false;
    const fetch: Fetch = async (url, { method = 'GET' }) => {
      const uri = new URL(url).searchParams.get('uri') as string;
      if (method === 'DELETE') for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      isGone ||= method === 'DELETE';
      return Response.json(body(uri));
    };
    const queue = new OutputQueue({ url: 'https://api.example', fetch });
    await queue.wait('a', { identity: 'id-a', take: true }).catch(() => undefined);
    assert.equal(isGone, true);
  }
});

test('what was not read because of the network is not taken', async () => {
  const { queue, asked } = api(async () => {
    throw new Error('down');
  });
  assert.deepEqual(await all(queue.results(records(1), { take: true })), ['0 queue_unavailable']);
  assert.deepEqual(asked, ['GET 0']);
});

test('a result is given although the next record has not come, and who leaves ends what is asked for', async () => {
  const { queue, asked } = api((uri) =>
    uri === '0' ? Promise.resolve(done(uri)) : new Promise(() => undefined),
  );
  let isEnded = false;
  async function* slow() {
    try {
      yield* records(2);
      await new Promise(() => undefined);
    } finally {
      isEnded = true;
    }
  }
  for await (const outcome of queue.results(slow())) {
    assert.equal(shown(outcome), '0 ok');
    break;
  }
  assert.deepEqual(asked, ['GET 0', 'GET 1']);
  assert.equal(isEnded, false);
});

test('a page that comes after the drain has ended is given by the next drain', async () => {
  let answer: (response: Response) => void = () => undefined;
  const late = new Promise<Response>((resolve) => {
    answer = resolve;
  });
  let count = 0;
  const fetch: Fetch = async () => (++count === 1 ? late : Response.json({ results: [], more: false }));
  const queue = new OutputQueue({ url: 'https://api.example', fetch });
  await assert.rejects(queue.dequeue({ timeoutMs: 20 }), { code: 'timeout' });
  answer(Response.json({ results: [done('a'), done('b')], more: false }));
  assert.deepEqual([...(await queue.dequeue()).keys()], ['a', 'b']);
});

test('an element that is none of its dtype is refused, and nothing is cut off', async () => {
  const answers = (dtype: string, data: unknown[], shape = [data.length]) => {
    const body = { ...done('a'), outputs: [{ name: 'y', dtype, shape, data }] };
    return new HttpResults('https://api.example', async () => Response.json(body)).get('a');
  };
  assert.deepEqual((await answers('int8', [-128, 127]))?.outputs[0]?.data, Int8Array.of(-128, 127));
  assert.deepEqual((await answers('bool', [true, false]))?.outputs[0]?.data, Uint8Array.of(1, 0));
  assert.deepEqual((await answers('float32', [null, 1]))?.outputs[0]?.data, Float32Array.of(NaN, 1));
  for (const [dtype, data, shape] of [
    ['int8', [300]],
    ['int32', [1.5]],
    ['int32', [null]],
    ['float32', ['1']],
    ['int64', ['1.5']],
    ['complex64', [1]],
    ['float32', [1, 2], [3]],
  ] as const) {
    await assert.rejects(answers(dtype, [...data], shape && [...shape]), {
      code: 'internal',
      message: /^the answer of the service cannot be read: output "y": /,
    });
  }
});
