import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { RedisConnection } from '../../lib/redis/connection.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue, type Result } from '../../sdk/index.ts';
import { identityModel } from '../support/onnx.ts';
import { PATIENT } from '../support/redis.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const image = (digit: number) => join(SAMPLE, `images/digit-${digit}.png`);

const cleanups: (() => unknown)[] = [];
let shared: Stack;
before(async () => {
  shared = await testStack({ after: (cleanup) => cleanups.unshift(cleanup) });
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/** Tests without a config of their own share a service, and start with an empty Redis. */
async function clients(t: TestContext, config?: string) {
  const stack = config === undefined ? shared : await testStack(t, { config });
  const connection = new RedisConnection(stack.redisUrl, PATIENT);
  await connection.use((redis) => redis.flushall(), false);
  await connection.close();
  const options = clientOptions(stack);
  const input = new InputQueue(options.input);
  const output = new OutputQueue(options.output);
  const overHttp = {
    input: new InputQueue({ frontendUrl: stack.url }),
    output: new OutputQueue({ url: stack.url }),
  };
  t.after(() =>
    Promise.all([input.close(), output.close(), overHttp.input.close(), overHttp.output.close()]),
  );
  return { stack, input, output, overHttp };
}

const dataOf = (result: Result) => [...(result.outputs[0]?.data as Float32Array)];

test('the same image gets the same answer from /predict, from enqueue and query, and over HTTPS alone', async (t) => {
  const { stack, input, output, overHttp } = await clients(t);
  const expected = JSON.parse(await readFile(join(SAMPLE, 'expected.json'), 'utf8')) as Record<
    string,
    number[]
  >;
  for (const digit of [0, 5, 9]) {
    const b64 = (await readFile(image(digit))).toString('base64');
    const [prediction] = await input.predict({ instances: [{ image: b64 }] });
    const direct = JSON.parse((prediction as string).slice('{value='.length, -1)) as {
      data: number[];
      shape: number[];
    };
    assert.deepEqual(direct.shape, [10]);

    await input.enqueue(`sqs-${digit}`, { image: { path: image(digit) } });
    await overHttp.input.enqueue(`http-${digit}`, { image: { b64 } });
    const posted = await fetch(`${stack.url}/predictions`, {
      method: 'POST',
      body: JSON.stringify({ uri: `json-${digit}`, instances: [{ image: b64 }] }),
    });
    assert.equal(posted.status, 202);
    assert.equal(posted.headers.get('location'), `/predictions/json-${digit}`);

    const answers = [
      direct.data.map(Math.fround),
      dataOf(await output.wait(`sqs-${digit}`)),
      dataOf(await overHttp.output.wait(`sqs-${digit}`)),
      dataOf(await output.wait(`http-${digit}`)),
      dataOf(await overHttp.output.wait(`json-${digit}`)),
    ];
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
    const reference = expected[`digit-${digit}.png`] as number[];
    for (const [i, value] of reference.entries())
      assert.ok(Math.abs((answers[0]?.[i] as number) - value) < 1e-5);
  }
});

test('query is undefined before the result is there, and queryAndDelete gives it once', async (t) => {
  const { input, output, overHttp } = await clients(t);
  for (const queue of [output, overHttp.output]) {
    assert.equal(await queue.query('one'), undefined);
    await input.enqueue('one', { image: { path: image(1) } });
    await queue.wait('one');
    assert.ok(await queue.query('one'));
    assert.ok(await queue.queryAndDelete('one'));
    assert.equal(await queue.queryAndDelete('one'), undefined);
  }
});

test('a failed record throws its code and uri from query, wait and dequeue, over Redis and over HTTPS', async (t) => {
  const { input, output, overHttp } = await clients(t);
  const failure = {
    code: 'bad_input',
    uri: 'wrong',
    message: 'input "image": expected float32 [3,8,8], got shape [2]',
  };
  for (const queue of [output, overHttp.output]) {
    await input.enqueue('wrong', { image: [1, 2] });
    await assert.rejects(queue.wait('wrong'), failure);
    await assert.rejects(queue.query('wrong'), failure);
    const all = await queue.dequeue();
    assert.equal((all.get('wrong') as { code?: string }).code, 'bad_input');
    assert.equal(await queue.query('wrong'), undefined);
  }
});

test('dequeue over HTTPS takes everything, page by page', async (t) => {
  const { input, output, overHttp } = await clients(t);
  const uris = Array.from({ length: 230 }, (_, i) => `many-${i}`);
  await input.enqueueMany(uris.map((uri) => ({ uri, inputs: { image: { path: image(2) } } })));
  const seen = new Set<string>();
  await until(async () => {
    for (const uri of (await overHttp.output.dequeue()).keys()) seen.add(uri);
    return seen.size === uris.length;
  });
  assert.equal((await output.dequeue()).size, 0);
});

test('wait gives up after its time, on both ways, and says so', async (t) => {
  const { output, overHttp } = await clients(t);
  for (const queue of [output, overHttp.output]) {
    await assert.rejects(queue.wait('nobody', { timeoutMs: 100 }), { code: 'timeout', uri: 'nobody' });
    await assert.rejects(queue.wait('nobody', { signal: AbortSignal.abort(new Error('enough')) }), {
      message: 'enough',
    });
  }
});

test('a filter shapes both answers', async (t) => {
  const { input, output } = await clients(t, 'imageResize: 8,8\npostProcessing: topN(1)');
  const b64 = (await readFile(image(7))).toString('base64');
  const [prediction] = await input.predict({ instances: [{ image: b64 }] });
  assert.match(prediction as string, /^\{value=\[\[7,0\.99\d+\]\]\}$/);
  await input.enqueue('seven', { image: { b64 } });
  const { filtered } = await output.wait('seven');
  assert.equal(`{value=${JSON.stringify(filtered)}}`, prediction);
});

const BAD_BODIES: [string, string, RegExp][] = [
  ['not JSON', 'hello', /^the body is not JSON: /],
  ['an empty body', '', /^the body is empty/],
  ['invalid UTF-8', '\xff', /not valid UTF-8/],
  ['no instances', '{"instance":[{}]}', /no "instances" array in the body \(got the keys \["instance"\]\)/],
  [
    'instances that are no array',
    '{"instances":{}}',
    /no "instances" array in the body \(got an object there\)/,
  ],
  ['empty instances', '{"instances":[]}', /"instances" is empty/],
  [
    'an instance that is no object',
    '{"instances":[3]}',
    /input "\(value\)": expected float32 \[3,8,8\], got shape \[\]/,
  ],
  [
    'a wrong shape',
    '{"instances":[{"image":[[1,2],[3,4]]}]}',
    /input "image": expected float32 \[3,8,8\], got shape \[2,2\]/,
  ],
  [
    'names of no input',
    '{"instances":[{"a":1,"b":2}]}',
    /missing input "image", unknown input "a", "b"; the model expects "image" float32 \[3,8,8\]/,
  ],
  [
    'broken base64',
    '{"instances":[{"image":"a*b="}]}',
    /input "image": expected a base64 image: .*position 1/,
  ],
  [
    'a broken image',
    '{"instances":[{"image":"aGVsbG8="}]}',
    /input "image": expected a JPEG, .* image, got 5 bytes/,
  ],
  [
    'a second instance that is wrong',
    '{"instances":[{"image":[]},{"image":3}]}',
    /instances\[0\]: input "image": is empty/,
  ],
  [
    'nesting a million deep',
    `{"instances":[{"image":${'['.repeat(1e6)}${']'.repeat(1e6)}}]}`,
    /nested deeper than 16/,
  ],
];

test('bad input gets {"error"} with what was expected and what came, and the next request works', async (t) => {
  const { stack } = await clients(t);
  const good = JSON.stringify({ instances: [{ image: (await readFile(image(3))).toString('base64') }] });
  const post = (body: string) =>
    fetch(`${stack.url}/predict`, { method: 'POST', body: Buffer.from(body, 'latin1') });
  for (const [name, body, expected] of BAD_BODIES) {
    await t.test(name, async () => {
      const response = await post(body);
      assert.ok(response.status === 400 || response.status === 413, `${response.status}`);
      const { error } = (await response.json()) as { error: string };
      assert.match(error, expected);
      const next = await post(good);
      assert.equal(next.status, 200);
    });
  }
});

test('a gzip body is read, a gzip bomb and another encoding are refused', async (t) => {
  const { stack } = await clients(t);
  const { gzipSync } = await import('node:zlib');
  const post = (body: Uint8Array, encoding: string) =>
    fetch(`${stack.url}/predict`, {
      method: 'POST',
      body: Buffer.from(body),
      headers: { 'content-encoding': encoding },
    });
  const good = JSON.stringify({ instances: [{ image: (await readFile(image(3))).toString('base64') }] });
  const answered = await post(gzipSync(good), 'gzip');
  assert.equal(answered.status, 200);
  assert.equal(answered.headers.get('model-version'), stack.model);
  assert.equal((await post(gzipSync(Buffer.alloc(100e6)), 'gzip')).status, 413);
  assert.equal((await post(Buffer.from('junk'), 'gzip')).status, 400);
  assert.equal((await post(Buffer.from(good), 'br')).status, 415);
});

test('the status routes answer: welcome, ready with the model, metrics with the names of the contract', async (t) => {
  const { stack, input } = await clients(t);
  assert.equal(await (await fetch(stack.url)).text(), 'welcome to analytics zoo web serving frontend');
  assert.partialDeepStrictEqual(await (await fetch(`${stack.url}/ready`)).json(), {
    ready: true,
    model: stack.model,
  });
  const b64 = (await readFile(image(3))).toString('base64');
  await input.enqueue('measured', { image: { b64 } });
  await until(async () => {
    await input.predict({ instances: [{ image: b64 }] });
    await fetch(`${stack.url}/predictions/measured`);
    const metrics = (await (await fetch(`${stack.url}/metrics`)).json()) as { name: string; count: number }[];
    assert.deepEqual(
      metrics.map(({ name }) => name),
      [
        'zoo.serving.redis.get',
        'zoo.serving.redis.put',
        'zoo.serving.redis.wait',
        'zoo.serving.request.metrics',
        'zoo.serving.request.overall',
        'zoo.serving.request.predict',
      ],
    );
    assert.deepEqual(Object.keys(metrics[0] as object), [
      'name',
      'count',
      'meanRate',
      'min',
      'max',
      'mean',
      'median',
      'stdDev',
      '_75thPercentile',
      '_95thPercentile',
      '_98thPercentile',
      '_99thPercentile',
      '_999thPercentile',
    ]);
    // Measured by four functions, told by one.
    const measured = metrics.filter(({ count }) => count > 0).map(({ name }) => name);
    return measured.length === metrics.length;
  });
});

test('an input queue that cannot take a record throws with its uri', async (t) => {
  const nowhere = new InputQueue({
    queueUrl: 'http://127.0.0.1:1/000000000000/q',
    endpoint: 'http://127.0.0.1:1',
    region: 'us-east-1',
  });
  t.after(() => nowhere.close());
  await assert.rejects(nowhere.enqueue('lost?', { x: 1 }), { code: 'queue_unavailable', uri: 'lost?' });
  const { input } = await clients(t);
  await assert.rejects(input.enqueue('large', { x: new Float64Array(200_000) }), {
    code: 'too_large',
    uri: 'large',
  });
  await assert.rejects(input.enqueue('no file', { image: '/no/such.png' }), {
    code: 'bad_request',
    uri: 'no file',
    message: /input "image": cannot read the image file \(a text is a path\): ENOENT/,
  });
  await assert.rejects(input.enqueue('', { x: 1 }), { code: 'bad_request' });
  const wrong = [
    { uri: 'a', inputs: { image: { path: image(1) } } },
    { uri: 'b', inputs: {} },
    { uri: 'c', inputs: { x: '/no/such.png' } },
  ];
  await assert.rejects(input.enqueueMany(wrong), (error: AggregateError) => {
    assert.match(error.message, /2 of 3 records were not enqueued/);
    assert.deepEqual(error.errors.map(({ uri }) => uri as string).sort(), ['b', 'c']);
    return true;
  });
});

test('a record over 1 MiB travels through S3, from the SDK with a bucket and over HTTPS', async (t) => {
  const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 'n'] }]);
  const modelDirectory = await temporaryFolder(t);
  await writeFile(join(modelDirectory, 'model.onnx'), model);
  const stack = await testStack(t, { config: '', modelDirectory });
  const options = clientOptions(stack);
  const input = new InputQueue({ ...options.input, bucket: stack.bucket });
  const output = new OutputQueue(options.output);
  const overHttp = new InputQueue({ frontendUrl: stack.url });
  t.after(() => Promise.all([input.close(), output.close(), overHttp.close()]));
  const x = Float32Array.from({ length: 400_000 }, (_, i) => i);
  await input.enqueue('large', { x });
  await overHttp.enqueue('large over http', { x });
  for (const uri of ['large', 'large over http']) {
    assert.deepEqual((await output.wait(uri)).outputs[0]?.data, x);
  }
  await assert.rejects(input.enqueue('too large', { x: new Float32Array(7e6) }), {
    code: 'too_large',
    uri: 'too large',
    message: /over the limit of 33554432/,
  });
});

test('a pointer to nothing fails its record, and one outside the job is no pointer', async (t) => {
  const { stack, output } = await clients(t);
  const send = (body: object) =>
    stack.aws.sqs.send(
      new SendMessageCommand({ QueueUrl: stack.queueUrl, MessageBody: JSON.stringify(body) }),
    );
  await send({ uri: 'gone', pointer: 'payloads/serving_stream/00000000-0000' });
  await assert.rejects(output.wait('gone'), { code: 'bad_request', message: /is not there \(any more\)/ });
  for (const pointer of [
    'models/serving_stream/current.json',
    'payloads/serving_stream/../../x',
    'payloads/other/x',
  ]) {
    await send({ uri: pointer, pointer });
    await assert.rejects(output.wait(pointer), { code: 'bad_request', message: /data: expected a text/ });
  }
});

test('Prefer: respond-async on /predict answers 202 with a uri, and the result is there later', async (t) => {
  const { stack, overHttp } = await clients(t);
  const body = JSON.stringify({
    uri: 'later',
    instances: [{ image: (await readFile(image(6))).toString('base64') }],
  });
  const response = await fetch(`${stack.url}/predict`, {
    method: 'POST',
    body,
    headers: { prefer: 'respond-async' },
  });
  assert.equal(response.status, 202);
  const { uri, identity } = (await response.json()) as { uri: string; identity: string };
  assert.equal(uri, 'later');
  assert.equal(response.headers.get('location'), '/predictions/later');
  const data = dataOf(await overHttp.output.wait('later', { identity }));
  assert.equal(data.indexOf(Math.max(...data)), 6);
});

test('a page of an allowed origin may call, others may not, and none may without configured origins', async (t) => {
  const { stack } = await clients(t, 'imageResize: 8,8\nhttp: {corsOrigins: ["https://ours.example"]}');
  const preflight = (origin: string) =>
    fetch(`${stack.url}/predict`, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST' },
    });
  const ours = await preflight('https://ours.example');
  assert.equal(ours.status, 204);
  assert.equal(ours.headers.get('access-control-allow-origin'), 'https://ours.example');
  assert.match(ours.headers.get('access-control-allow-methods') ?? '', /POST/);
  assert.equal((await preflight('https://theirs.example')).headers.get('access-control-allow-origin'), null);
  const plain = await fetch(`${stack.url}/`, { headers: { origin: 'https://ours.example' } });
  assert.equal(plain.status, 200);
  assert.equal(plain.headers.get('access-control-allow-origin'), 'https://ours.example');
  const closed = await clients(t);
  const refused = await fetch(closed.stack.url, { headers: { origin: 'https://ours.example' } });
  assert.equal(refused.headers.get('access-control-allow-origin'), null);
});

test('over the configured rate /predict answers 429 with Retry-After, and other routes go on', async (t) => {
  const http = 'http: {tokenBucketEnabled: true, tokensPerSecond: 1, tokenAcquireTimeoutMs: 1}';
  const { stack } = await clients(t, `imageResize: 8,8\n${http}`);
  const body = JSON.stringify({ instances: [{ image: (await readFile(image(3))).toString('base64') }] });
  const responses = await Promise.all(
    Array.from({ length: 40 }, () => fetch(`${stack.url}/predict`, { method: 'POST', body })),
  );
  const limited = responses.filter(({ status }) => status === 429);
  // One at once and one a second: also on a machine that takes ten seconds for all of them.
  assert.ok(limited.length >= 25, responses.map(({ status }) => status).join());
  assert.ok(responses.some(({ status }) => status === 200));
  assert.equal(limited[0]?.headers.get('retry-after'), '1');
  assert.equal(((await limited[0]?.json()) as { code: string }).code, 'rate_limited');
  assert.equal((await fetch(stack.url)).status, 200);
});

test('over HTTPS a uri with a question mark, a slash or a script of its own finds its own result', async (t) => {
  const { overHttp } = await clients(t);
  const uris = ['a?b', 'a', 'a/b', '../a', 'ä画像 &c=d', '100%'];
  for (const [digit, uri] of uris.entries())
    await overHttp.input.enqueue(uri, { image: { path: image(digit) } });
  for (const [digit, uri] of uris.entries()) {
    const data = dataOf(await overHttp.output.wait(uri));
    assert.equal(data.indexOf(Math.max(...data)), digit, uri);
    assert.ok(await overHttp.output.queryAndDelete(uri));
    assert.equal(await overHttp.output.query(uri), undefined);
  }
});

test('requests over HTTPS go through the given fetch, which may sign them', async (t) => {
  const { stack } = await clients(t);
  const signed: string[] = [];
  const sign = (url: string, init: RequestInit) => {
    signed.push(`${init.method} ${new URL(url).pathname}`);
    return fetch(url, {
      ...init,
      headers: { ...(init.headers as object), authorization: 'AWS4-HMAC-SHA256 ...' },
    });
  };
  const input = new InputQueue({ frontendUrl: stack.url, fetch: sign });
  const output = new OutputQueue({ url: stack.url, fetch: sign });
  await input.enqueue('signed', { image: { path: image(1) } });
  await output.wait('signed');
  assert.equal(await output.status('signed'), 'succeeded');
  assert.deepEqual(signed, ['POST /predictions', 'GET /predictions', 'GET /status']);
});

test('HEAD answers as GET does, without a body', async (t) => {
  const { stack } = await clients(t);
  for (const [path, status] of [
    ['/', 200],
    ['/ready', 200],
    ['/metrics', 200],
    ['/predictions/nobody', 404],
  ] as const) {
    const response = await fetch(stack.url + path, { method: 'HEAD' });
    assert.equal(response.status, status, path);
    assert.equal(await response.text(), '');
  }
});

test('what does not fit into an answer over HTTPS comes back all the same, once, with its neighbours, and predict refuses it', async (t) => {
  const modelDirectory = await temporaryFolder(t);
  await writeFile(
    join(modelDirectory, 'model.onnx'),
    identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 'n'] }]),
  );
  const stack = await testStack(t, { config: '', modelDirectory });
  const options = clientOptions(stack);
  const input = new InputQueue({ ...options.input, bucket: stack.bucket });
  const output = new OutputQueue(options.output);
  const overHttp = new OutputQueue({ url: stack.url });
  t.after(() => Promise.all([input.close(), output.close(), overHttp.close()]));
  const large = Float32Array.from({ length: 900_000 }, (_, i) => i / 7);
  for (const [uri, x] of [
    ['small 1', [1]],
    ['large', large],
    ['small 2', [2]],
  ] as const) {
    await input.enqueue(uri, { x });
    await output.wait(uri);
  }
  assert.deepEqual((await overHttp.query('large'))?.outputs[0]?.data, large);
  const all = await overHttp.dequeue();
  assert.deepEqual([...all.keys()].sort(), ['large', 'small 1', 'small 2']);
  assert.deepEqual((all.get('large') as Result).outputs[0]?.data, large);
  assert.equal(await output.query('large'), undefined);
  await assert.rejects(
    input.predict({ instances: [{ x: { shape: [4_000_000], data: [1], indices: [[0]] } }] }),
    {
      code: 'too_large',
      message: /the answer would have 4000000 numbers/,
    },
  );
});

test('who breaks off a drain finds the rest in the next, over Redis and over HTTPS', async (t) => {
  const { input, output, overHttp } = await clients(t);
  for (const queue of [output, overHttp.output]) {
    const uris = Array.from({ length: 30 }, (_, i) => `rest-${i}`);
    await input.enqueueMany(uris.map((uri) => ({ uri, inputs: { image: [1] } })));
    for (const uri of uris) await assert.rejects(output.wait(uri));
    const seen: string[] = [];
    for await (const { uri } of queue.drain()) {
      seen.push(uri);
      if (seen.length === 7) break;
    }
    seen.push(...(await queue.dequeue()).keys());
    assert.deepEqual(seen.sort(), uris.sort());
  }
});

test('a store that goes away while it is dequeued loses nothing that was taken', async (t) => {
  const pages = [
    { results: [{ uri: 'a', status: 'failed', error: 'no', code: 'bad_input' }], more: true },
    undefined,
    { results: [{ uri: 'b', status: 'failed', error: 'no', code: 'bad_input' }], more: false },
  ];
  const queue = new OutputQueue({
    url: 'https://example.invalid',
    fetch: async () => {
      const page = pages.shift();
      return page ? Response.json(page) : Promise.reject(new TypeError('fetch failed'));
    },
  });
  t.after(() => queue.close());
  assert.deepEqual([...(await queue.dequeue()).keys()], ['a']);
  assert.deepEqual([...(await queue.dequeue()).keys()], ['b']);
});

test('dequeue over HTTPS goes on past a page whose results others have deleted', async (t) => {
  const { stack, input, output, overHttp } = await clients(t);
  const uris = Array.from({ length: 130 }, (_, i) => `gone-${i}`);
  await input.enqueueMany(uris.map((uri) => ({ uri, inputs: { image: [1] } })));
  for (const uri of uris) await assert.rejects(output.wait(uri));
  const connection = new RedisConnection(stack.redisUrl, PATIENT);
  t.after(() => connection.close());
  const oldest = await connection.use(
    (redis) => redis.zrange('cluster-serving-index_serving_stream', '0', '99'),
    true,
  );
  await connection.use(
    (redis) => redis.del(...oldest.map((uri) => `cluster-serving_serving_stream:${uri}`)),
    false,
  );
  assert.equal((await overHttp.output.dequeue()).size, 30);
});

test('the Location of an accepted record leads to its result, whatever its uri', async (t) => {
  const { stack } = await clients(t);
  const b64 = (await readFile(image(8))).toString('base64');
  for (const uri of ['plain-1', 'q?1', 'a/b', '..']) {
    const body = JSON.stringify({ uri, instances: [{ image: b64 }] });
    const { headers } = await fetch(`${stack.url}/predictions`, { method: 'POST', body });
    const result = await fetch(new URL(headers.get('location') as string, stack.url), {
      headers: { prefer: 'wait=20000' },
    });
    assert.equal(result.status, 200, uri);
    assert.equal(((await result.json()) as { uri: string }).uri, uri);
  }
});

test('a wrong url of the API is an error, not "no result yet"', async (t) => {
  const { stack } = await clients(t);
  const wrong = new OutputQueue({ url: `${stack.url}/v1` });
  for (const call of [wrong.query('a'), wrong.wait('a'), wrong.dequeue()]) {
    await assert.rejects(call, {
      code: 'bad_config',
      message: /has no \/v1\/predictions: is it the url of the API\?/,
    });
  }
});

test('waits that make no sense are refused, and a closed queue says so', async (t) => {
  const { input, output, overHttp } = await clients(t);
  for (const queue of [output, overHttp.output]) {
    for (const timeoutMs of [Number.NaN, -1, '10s' as unknown as number]) {
      await assert.rejects(queue.wait('a', { timeoutMs }), {
        code: 'bad_request',
        message: /timeoutMs: expected a number/,
      });
    }
  }
  await output.close();
  await assert.rejects(output.query('a'), { code: 'bad_request', message: /was closed/ });
  await input.close();
  await assert.rejects(input.enqueue('a', { x: 1 }), { code: 'bad_request', message: /was closed/ });
});

test('an iterable or a progress that throws ends enqueueMany with nothing under way', async (t) => {
  const { input, output } = await clients(t);
  async function* breaking() {
    for (let i = 0; i < 25; i++) yield { uri: `flown-${i}`, inputs: { image: { path: image(1) } } };
    throw new Error('the source broke');
  }
  await assert.rejects(input.enqueueMany(breaking()), { message: 'the source broke' });
  // Everything sent was taken before the error was reported.
  for (let i = 0; i < 25; i++) await output.wait(`flown-${i}`);
  const one = [{ uri: 'progress', inputs: { image: { path: image(1) } } }];
  await assert.rejects(
    input.enqueueMany(one, () => {
      throw new Error('the bar broke');
    }),
    { message: 'the bar broke' },
  );
  await output.wait('progress');
});

test('what a person passes by mistake is refused with what to write instead', async (t) => {
  const { input } = await clients(t);
  const cases: [unknown, RegExp][] = [
    [undefined, /inputs: expected an object of inputs by name/],
    ['abc', /inputs: expected an object of inputs by name/],
    [{ image: await readFile(image(1)) }, /got a Buffer; write \{ bytes \} for an image/],
    [{ image: 'typo.png' }, /cannot read the image file \(a text is a path\)/],
    [{ image: () => 1 }, /got a function/],
    [{ image: { b64: Buffer.from('a') } }, /b64: expected a text/],
    [{ image: { bytes: 'abc' } }, /bytes: expected a Uint8Array/],
    [{ x: { data: [1], shape: [1], dtype: 'complex64' } }, /dtype "complex64" is none of ONNX/],
  ];
  for (const [inputs, expected] of cases) {
    await assert.rejects(input.enqueue('u', inputs as never), {
      code: 'bad_request',
      uri: 'u',
      message: expected,
    });
  }
});

test('a missing value in place of an image is refused by the model, with its name', async (t) => {
  const { input, output } = await clients(t);
  await input.enqueue('nothing', { image: null });
  await assert.rejects(output.wait('nothing', { timeoutMs: 20_000 }), {
    code: 'bad_input',
    uri: 'nothing',
    message: /image/,
  });
});
