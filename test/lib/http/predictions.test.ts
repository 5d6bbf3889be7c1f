import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { predict } from '../../../functions/predict.ts';
import type { PredictionsDeps } from '../../../functions/predictions.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { Result } from '../../../lib/contract/result.ts';
import type { NamedTensor, RunPolicy } from '../../../lib/contract/values.ts';
import { metricsAnswer } from '../../../lib/http/metrics.ts';
import { inferenceAnswer } from '../../../lib/http/open-inference/answer.ts';
import { page } from '../../../lib/http/page.ts';
import { failureBody, pageText, predictionTexts, readSubmissions } from '../../../lib/http/predictions.ts';
import { binary, json, jsonText, text } from '../../../lib/http/response.ts';
import { DeliveredTimers } from '../../../lib/observe/timers.ts';
import { together } from '../../../lib/observe/together.ts';
import { resultText } from '../../../lib/pipeline/answer/result-text.ts';
import { quietObservers } from '../../support/observers.ts';
import { predictionsWith } from '../../support/predictions.ts';

function event(method: string, path: string, body = ''): APIGatewayProxyEventV2 {
  const requestContext = { http: { method } };
  return { rawPath: path, headers: {}, requestContext, body } as unknown as APIGatewayProxyEventV2;
}

function resultOf(...outputs: NamedTensor[]): Result {
  return { uri: 'a', outputs, filtered: undefined, model: 'v', finishedAt: 0, identity: '' };
}

test('outputs that cannot fit into an answer are refused before they are written', () => {
  const data = new Float32Array(LIMITS.httpBodyBytes / 2 + 1);
  const outputs: NamedTensor[] = [{ name: 'y', dtype: 'float32', shape: [data.length], data }];
  assert.throws(() => predictionTexts([{ ok: true, outputs }], undefined), {
    code: 'too_large',
    message: /^the answer would have 3145729 numbers/,
  });
});

test('an integer beyond 2^53 is written as a text, and one below as a number', () => {
  const data = BigInt64Array.of(2n ** 53n + 1n, 7n);
  const answer = resultText(resultOf({ name: 'y', dtype: 'int64', shape: [2], data }));
  assert.deepEqual(JSON.parse(answer).outputs[0].data, ['9007199254740993', 7]);
});

test('the message of an instance has all digits of its integers, and the sign of a zero', () => {
  const value =
    '{"x":[9007199254740993,-0.0,1.5],"n":-9223372036854775808,"deep":[[18446744073709551615]],"text":"-0.0"}';
  const { submissions } = readSubmissions(`{"instances":[${value}]}`);
  const { data } = JSON.parse(submissions[0]?.message as string) as { data: string };
  assert.equal(data, `{"instances":[${value}],"bindByPosition":false}`);
});

test('a cancelled record is answered as cancelled, any other failure as failed', () => {
  const statusOf = (code: 'cancelled' | 'bad_input') =>
    failureBody(new ServingError(code, 'no', { uri: 'a' }))['status'];
  assert.deepEqual([statusOf('cancelled'), statusOf('bad_input')], ['cancelled', 'failed']);
});

test('a page without results may have more behind it; only no page at all is the end', () => {
  assert.deepEqual(JSON.parse(pageText([])), { results: [], more: true });
  assert.deepEqual(JSON.parse(pageText(undefined)), { results: [], more: false });
});

function endpoint(sends: (message: string) => Promise<void>, more: Partial<PredictionsDeps> = {}) {
  const pages: [count: number, maxBytes: number][] = [];
  const handler = predictionsWith({
    queue: () => ({ send: sends }),
    results: () => ({
      getWithin: async () => undefined,
      take: async () => undefined,
      takePage: async (count, maxBytes) => {
        pages.push([count, maxBytes]);
        return undefined;
      },
    }),
    ...more,
  });
  return { handler, pages };
}

const ONE = '{"instances":[{"x":1}]}';

test('202 comes when the queue has the record, and 503 when it does not take it', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  let isSent = false;
  const slow = async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    isSent = true;
  };
  assert.equal((await endpoint(slow).handler(event('POST', '/predictions', ONE))).statusCode, 202);
  assert.ok(isSent);
  const refused = () => Promise.reject(new ServingError('queue_unavailable', 'no'));
  assert.equal((await endpoint(refused).handler(event('POST', '/predictions', ONE))).statusCode, 503);
});

test('one record is answered with its uri and identity, two with their uris and identities, and a key names them', async () => {
  const { handler } = endpoint(async () => undefined);
  const post = async (body: string, headers: Record<string, string> = {}) => {
    const { statusCode, body: answer = '' } = await handler({
      ...event('POST', '/predictions', body),
      headers,
    });
    return statusCode === 202 ? (JSON.parse(answer) as Record<string, unknown>) : statusCode;
  };
  const two = '{"instances":[{"x":1},{"x":2}],"uris":["a","b"]}';
  assert.deepEqual(Object.keys((await post(ONE)) as object), ['uri', 'identity']);
  const { uris, identities } = (await post(two)) as { uris: string[]; identities: string[] };
  assert.deepEqual([uris, new Set(identities).size], [['a', 'b'], 2]);
  const keyed = { 'idempotency-key': 'order-7' };
  assert.equal(((await post(ONE, keyed)) as { identity: string }).identity, 'order-7');
  assert.deepEqual(await post(two, keyed), { uris: ['a', 'b'], identities: ['order-7-0', 'order-7-1'] });
  assert.equal(await post(ONE, { 'idempotency-key': 'a b' }), 400);
});

test('a page of results keeps to a hundred, and to bytes that fit into an answer as JSON', async () => {
  const { handler, pages } = endpoint(async () => undefined);
  await handler(event('DELETE', '/predictions'));
  const [count, maxBytes] = pages[0] as [number, number];
  assert.equal(count, 100);
  assert.ok(maxBytes * 3 < LIMITS.httpBodyBytes);
});

test('a question for a result is measured with its wait, also when there is none', async () => {
  for (const [method, found] of [
    ['GET', { ...resultOf(), uri: 'a' }],
    ['GET', undefined],
    ['DELETE', { ...resultOf(), uri: 'a' }],
  ] as const) {
    let nowMs = 0;
    const waits: number[] = [];
    const counts: unknown[] = [];
    const now = () => nowMs;
    const timers = new DeliveredTimers({
      now,
      deliver: async (taken) => {
        await new Promise((resolve) => setImmediate(resolve));
        for (const [name, { count, sum }] of taken.take()) counts.push([name, count, sum]);
      },
    });
    const observers = together([timers], now);
    const { handler } = endpoint(async () => undefined, {
      observers,
      results: () => ({
        getWithin: async (_, waitMs) => {
          waits.push(waitMs);
          nowMs += 1_500;
          return found;
        },
        take: async (_, { use }) => {
          if (found) use(found);
          return found;
        },
        takePage: async () => undefined,
      }),
    });
    const asked = { ...event(method, '/predictions'), queryStringParameters: { uri: 'a' } };
    const { statusCode } = await handler({
      ...asked,
      rawQueryString: 'uri=a',
      headers: { prefer: 'wait=7' },
    });
    await observers.flush?.({ leftMs: () => 30_000 });
    assert.equal(statusCode, found ? 200 : 404);
    assert.deepEqual(waits, [method === 'GET' ? 7_000 : 0]);
    assert.deepEqual(counts, [['zoo.serving.redis.get', 1, 1_500]]);
  }
});

test('a run of a request is asked to end when the function has no time left', async () => {
  let leftMs = 10_000;
  let policy: RunPolicy | undefined;
  const handler = predict({
    model: {
      use: (work) =>
        work({
          version: 'v',
          run: async (records, given) => {
            policy = given;
            return records.map(() => ({ ok: true, outputs: [] }));
          },
          close: async () => undefined,
        }),
    },
    filter: undefined,
    observers: quietObservers(),
  });
  await handler(event('POST', '/predict', ONE), { getRemainingTimeInMillis: () => leftMs });
  assert.equal(policy?.failFast, true);
  assert.equal(policy.isOver?.(), false);
  leftMs = 0;
  assert.equal(policy.isOver?.(), true);
});

test('no browser takes an answer for a page, runs what is in a page, or frames it', () => {
  const nosniff = { 'x-content-type-options': 'nosniff' };
  const typed = (type: string) => ({ 'content-type': type, ...nosniff });
  const shown = { timers: { histograms: new Map(), seconds: 0 }, served: undefined, own: [] };
  for (const [answer, expected] of [
    [text(200, 'x'), typed('text/plain; charset=utf-8')],
    [json(200, {}), typed('application/json; charset=utf-8')],
    [
      jsonText(200, '{}', { 'model-version': 'v' }),
      { ...typed('application/json; charset=utf-8'), 'model-version': 'v' },
    ],
    [binary(200, 'AAAA'), typed('application/octet-stream')],
    [
      metricsAnswer({ job: 'job', ...shown }, 'prometheus'),
      typed('text/plain; version=0.0.4; charset=utf-8'),
    ],
    [
      page('<p>'),
      {
        ...typed('text/html; charset=utf-8'),
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        'cache-control': 'no-store',
      },
    ],
  ] as const)
    assert.deepEqual(answer.headers, expected);
});

test('POST /predict and POST /v2 take a token each, and are answered with 429 and when to come back without one', async () => {
  let taken = 0;
  const limiter = {
    acquire: async () => {
      taken++;
      throw new ServingError('rate_limited', 'too many', { retryAfterSeconds: 7 });
    },
  };
  const model = { use: () => assert.fail('the model is not asked') };
  const handler = predict({ model, filter: undefined, limiter, observers: quietObservers() });
  for (const path of ['/predict', '/v2/models/serving_stream/infer']) {
    const { statusCode, headers } = await handler(event('POST', path, ONE));
    assert.deepEqual([statusCode, headers?.['retry-after']], [429, '7'], path);
  }
  assert.equal(taken, 2);
});

test('binary outputs that cannot fit into an answer take no memory for it', () => {
  const data = new Float32Array(LIMITS.httpBodyBytes / 4);
  const tensor: NamedTensor = { name: 'y', dtype: 'float32', shape: [data.length], data };
  const answer = {
    model: 'm',
    version: 'v',
    headers: {},
    id: undefined,
    outputs: [{ tensor, binary: true }],
  };
  const allocate = () => assert.fail('nothing is written');
  assert.throws(() => inferenceAnswer(answer, allocate), { code: 'too_large' });
});

test('POST /cancel is 200 while there is time and 409 when it is too late, GET /status says where a record stands', async () => {
  const handlerWith = (isInTime: boolean) =>
    predictionsWith({
      states: () => ({ status: async () => 'running', cancel: async () => isInTime }),
    });
  const ask = async (isInTime: boolean, method: string, path: string) => {
    const asked = { ...event(method, path), queryStringParameters: { uri: 'a' } };
    const { statusCode, body } = await handlerWith(isInTime)(asked);
    return [statusCode, (JSON.parse(body ?? '') as { status?: string; code?: string }).status];
  };
  assert.deepEqual(await ask(true, 'POST', '/cancel'), [200, 'cancelled']);
  assert.deepEqual(await ask(false, 'POST', '/cancel'), [409, undefined]);
  assert.deepEqual(await ask(true, 'GET', '/status'), [200, 'running']);
});

const ID = '0b6c7f3e-8a55-4a76-9a0c-3f1f6f2f0d11';
const LARGE: Result = {
  ...resultOf(),
  large: {
    bucket: 'b',
    key: `results/job/${ID}`,
    form: 'bytes',
    bytes: 3,
    sha256: 'aa',
    json: { bytes: 9, sha256: 'bb' },
    finishedAt: 0,
  },
};

test('a large result is answered with 303 to its object, and taken by the id that was fetched', async () => {
  const taken: unknown[] = [];
  const handle = predictionsWith({
    results: () => ({
      getWithin: async () => LARGE,
      take: async (_, { fetched, use }) => {
        taken.push(fetched);
        if (fetched !== undefined && fetched !== ID) return undefined;
        use(LARGE);
        return LARGE;
      },
      takePage: async () => [{ uri: 'a', result: { ...LARGE, uri: 'a/b?c' } }],
    }),
    locate: (key) => `https://s3.example/${key}?signed`,
  });
  const ask = async (method: string, query: Record<string, string> = { uri: 'a' }, accept = '*/*') => {
    const asked = { ...event(method, '/predictions'), queryStringParameters: query, headers: { accept } };
    const { statusCode, headers = {}, body = '' } = await handle(asked);
    return { statusCode, headers, body: JSON.parse(body) as Record<string, unknown> };
  };
  for (const method of ['GET', 'HEAD', 'DELETE']) {
    const { statusCode, headers, body } = await ask(method);
    assert.equal(statusCode, 303);
    assert.equal(headers['location'], `https://s3.example/results/job/${ID}.json?signed`);
    assert.equal(headers['cache-control'], 'no-store');
    assert.deepEqual(body['large'], { id: ID, bytes: 9, sha256: 'bb' });
    assert.deepEqual([body['uri'], body['status']], ['a', 'succeeded']);
  }
  const raw = await ask('GET', { uri: 'a' }, 'application/octet-stream');
  assert.equal(raw.headers['location'], `https://s3.example/results/job/${ID}?signed`);
  assert.deepEqual(raw.body['large'], { id: ID, bytes: 3, sha256: 'aa' });

  const deleted = await ask('DELETE', { uri: 'a', fetched: ID });
  assert.deepEqual([deleted.statusCode, deleted.headers['location']], [200, undefined]);
  const other = ID.replace('0b6c', '0b6d');
  assert.equal((await ask('DELETE', { uri: 'a', fetched: other })).statusCode, 404);
  assert.equal((await ask('DELETE', { uri: 'a', fetched: 'results' })).statusCode, 400);
  assert.deepEqual(taken, [undefined, ID, other]);

  const { results } = (await ask('DELETE', {})).body as { results: [{ large: { location: string } }] };
  assert.equal(results[0].large.location, '/predictions?uri=a%2Fb%3Fc');
});

test('a uri and uris exclude each other', () => {
  const body = JSON.stringify({ instances: [{ x: 1 }], uri: 'a', uris: ['a'] });
  assert.throws(() => readSubmissions(body), { code: 'bad_request', message: /exclude each other/ });
});
