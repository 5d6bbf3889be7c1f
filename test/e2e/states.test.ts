import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import {
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { RedisConnection } from '../../lib/redis/connection.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue, type ServingError } from '../../sdk/index.ts';
import { identityModel } from '../support/onnx.ts';
import { PATIENT } from '../support/redis.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** A service of each kind of Redis, with a model that returns its input. */
const stacks = new Map<boolean, Stack>();
const cleanups: (() => unknown)[] = [];
before(async () => {
  const hooks = { after: (cleanup: () => unknown) => cleanups.unshift(cleanup) };
  const modelDirectory = await temporaryFolder(hooks);
  const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 'n'] }]);
  await writeFile(join(modelDirectory, 'model.onnx'), model);
  for (const preferEmbeddedRedis of [false, true])
    stacks.set(
      preferEmbeddedRedis,
      await testStack(hooks, { config: '', modelDirectory, preferEmbeddedRedis }),
    );
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/** One of the services with an empty queue and Redis, and another queue without a consumer. */
async function openStack(t: TestContext, preferEmbeddedRedis: boolean) {
  const stack = stacks.get(preferEmbeddedRedis);
  assert.ok(stack);
  await drained(stack);
  const connection = new RedisConnection(stack.redisUrl, PATIENT);
  await connection.use((redis) => redis.flushall(), false);
  await connection.close();
  // Its own, because what was received from it and not deleted is visible again later.
  const aside = await stack.aws.createQueue({ name: `aside-${randomUUID()}` });
  const options = clientOptions(stack);
  const announcing = { ...options.input, redisUrl: stack.redisUrl };
  const queues = {
    input: new InputQueue(announcing),
    other: new InputQueue(announcing),
    unannounced: new InputQueue(options.input),
    waiting: new InputQueue({ ...announcing, queueUrl: aside.url }),
    inputOverHttp: new InputQueue({ frontendUrl: stack.url }),
    output: new OutputQueue(options.output),
    outputOverHttp: new OutputQueue({ url: stack.url }),
  };
  t.after(() => Promise.all(Object.values(queues).map((queue) => queue.close())));
  return { stack, asideUrl: aside.url, outputs: [queues.output, queues.outputOverHttp] as const, ...queues };
}

/** Lets the records that were held aside run, as if the queue had had them all the time. */
async function letRun(stack: Stack, asideUrl: string, count: number): Promise<void> {
  const { sqs } = stack.aws;
  const held: Message[] = [];
  await until(async () => {
    const receive = new ReceiveMessageCommand({
      QueueUrl: asideUrl,
      MaxNumberOfMessages: 10,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['SentTimestamp'],
    });
    held.push(...((await sqs.send(receive)).Messages ?? []));
    return held.length === count;
  });
  for (const { Body, MessageAttributes, Attributes } of held) {
    const originalSentTimestamp = { DataType: 'Number', StringValue: Attributes?.SentTimestamp };
    const attributes = { ...MessageAttributes, originalSentTimestamp };
    const send = { QueueUrl: stack.queueUrl, MessageBody: Body, MessageAttributes: attributes };
    await sqs.send(new SendMessageCommand(send));
  }
}

/** The batch function has handled every message: each is deleted after its results were saved. */
async function drained({ aws, queueUrl }: Stack): Promise<void> {
  const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const;
  await until(async () => {
    const { Attributes = {} } = await aws.sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: [...names] }),
    );
    return names.every((name) => Attributes[name] === '0');
  });
}

for (const preferEmbedded of [false, true]) {
  const kind = preferEmbedded ? 'the embedded Redis' : 'the Redis of this machine';

  test(`${kind}: a record cancelled before it ran keeps "cancelled", and its neighbour gets its result`, async (t) => {
    const { stack, asideUrl, waiting, output, outputs } = await openStack(t, preferEmbedded);
    const uris = ['over redis', 'over/https?'];
    for (const uri of [...uris, 'neighbour']) await waiting.enqueue(uri, { x: [1, 2] });
    for (const [i, uri] of uris.entries()) {
      assert.equal(await outputs[i]?.status(uri), 'queued');
      assert.equal(await outputs[i]?.cancel(uri), true);
    }
    await letRun(stack, asideUrl, 3);
    assert.ok(await output.wait('neighbour'));
    await drained(stack);
    for (const uri of uris) {
      const cancelled = { code: 'cancelled', uri };
      for (const queue of outputs) assert.equal(await queue.status(uri), 'cancelled');
      await assert.rejects(output.query(uri), cancelled);
      await assert.rejects(output.wait(uri), cancelled);
    }
    // A uri with a slash or a question mark does not fit into the path of GET /predictions/{uri}.
    const [, overHttp] = outputs;
    await assert.rejects(overHttp.query('over redis'), { code: 'cancelled', uri: 'over redis' });
    await assert.rejects(overHttp.wait('over redis'), { code: 'cancelled', uri: 'over redis' });
    const all = await overHttp.dequeue();
    assert.deepEqual([...all.keys()].sort(), ['neighbour', ...uris].sort());
    assert.equal((all.get('over/https?') as ServingError).code, 'cancelled');
    // Taking it does not undo it.
    for (const uri of uris) {
      await assert.rejects(output.queryAndDelete(uri), { code: 'cancelled', uri });
      assert.equal(await output.status(uri), 'cancelled');
    }
  });

  test(`${kind}: status and cancel say the same over Redis and over HTTPS`, async (t) => {
    const { input, outputs } = await openStack(t, preferEmbedded);
    await input.enqueue('good', { x: [1] });
    await input.enqueue('bad', { x: '/dev/null' });
    await outputs[0].wait('good');
    await assert.rejects(outputs[0].wait('bad'));
    for (const queue of outputs) {
      assert.equal(await queue.status('nobody'), 'unknown');
      assert.equal(await queue.status('good'), 'succeeded');
      assert.equal(await queue.status('bad'), 'failed');
      assert.equal(await queue.cancel('good'), false);
      assert.ok(await queue.query('good'));
    }
  });

  test(`${kind}: of two that enqueue one uri with different inputs, each finds its own result or none, fifty times`, async (t) => {
    const { stack, input, inputOverHttp, output, outputs } = await openStack(t, preferEmbedded);
    const rounds = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const uri = `uri-${i}`;
        return Promise.all([input.enqueue(uri, { x: [1] }), inputOverHttp.enqueue(uri, { x: [2] })]);
      }),
    );
    await drained(stack);
    const last = new Set<number>();
    for (const [i, both] of rounds.entries()) {
      const uri = `uri-${i}`;
      const result = await output.query(uri);
      const x = both.findIndex(({ identity }) => identity === result?.identity) + 1;
      assert.deepEqual(result?.outputs[0]?.data, Float32Array.of(x), uri);
      last.add(x);
      for (const queue of outputs) {
        assert.equal(await queue.status(uri), 'succeeded');
        for (const [at, { identity }] of both.entries()) {
          const own = await queue.query(uri, { identity });
          assert.deepEqual(own?.outputs[0]?.data, at + 1 === x ? Float32Array.of(x) : undefined);
        }
      }
    }
    assert.ok(last.size > 0);
  });

  test(`${kind}: a uri that is used again has the result of the last enqueue, over SQS and over HTTPS`, async (t) => {
    const { input, unannounced, inputOverHttp, outputs } = await openStack(t, preferEmbedded);
    let x = 0;
    for (const queue of [input, inputOverHttp, unannounced, inputOverHttp, input]) {
      const { identity } = await queue.enqueue('a', { x: [++x] });
      for (const output of outputs) {
        const result = await output.wait('a', { identity, timeoutMs: 20_000 });
        assert.deepEqual([result.identity, result.outputs[0]?.data], [identity, Float32Array.of(x)]);
        assert.deepEqual((await output.query('a'))?.outputs[0]?.data, Float32Array.of(x));
        assert.equal(await output.status('a', { identity }), 'succeeded');
      }
    }
  });

  test(`${kind}: a wait for one enqueue does not return the result of another, and a taken uri is free at once`, async (t) => {
    const { stack, asideUrl, waiting, unannounced, outputs } = await openStack(t, preferEmbedded);
    const held = await waiting.enqueue('a', { x: [1] });
    const first = await unannounced.enqueue('a', { x: [2] });
    for (const output of outputs) {
      await output.wait('a', { identity: first.identity });
      await assert.rejects(output.wait('a', { identity: held.identity, timeoutMs: 50 }), { code: 'timeout' });
      assert.equal(await output.status('a', { identity: held.identity }), 'queued');
      assert.equal(await output.queryAndDelete('a', { identity: held.identity }), undefined);
    }
    assert.ok(await outputs[1].queryAndDelete('a', { identity: first.identity }));
    // It was sent before what was taken, so it comes too late.
    await letRun(stack, asideUrl, 1);
    await drained(stack);
    for (const output of outputs) {
      assert.equal(await output.query('a'), undefined);
      assert.equal(await output.cancel('a'), false);
    }
    const { identity } = await unannounced.enqueue('a', { x: [3] });
    assert.deepEqual((await outputs[0].wait('a', { identity })).outputs[0]?.data, Float32Array.of(3));
  });
}

test('an enqueue that is tried again with its identity has one result, over SQS and over HTTPS', async (t) => {
  const { stack, input, inputOverHttp, output } = await openStack(t, false);
  const identity = 'order-17.try';
  await input.enqueue('a', { x: [1, 2] }, { identity });
  const first = await output.wait('a', { identity });
  for (const queue of [input, inputOverHttp]) await queue.enqueue('a', { x: [1, 2] }, { identity });
  await drained(stack);
  assert.equal((await output.query('a'))?.finishedAt, first.finishedAt);
  assert.deepEqual((await output.queryAndDelete('a'))?.outputs[0]?.data, Float32Array.of(1, 2));
  await inputOverHttp.enqueue('a', { x: [1, 2] }, { identity });
  await drained(stack);
  assert.equal(await output.query('a'), undefined);
  for (const bad of ['', 'a b', '~', 'x'.repeat(65)]) {
    await assert.rejects(input.enqueue('a', { x: [1] }, { identity: bad }), {
      code: 'bad_request',
      uri: 'a',
    });
    await assert.rejects(output.query('a', { identity: bad }), { code: 'bad_request' });
  }
});

test('a record that the queue did not take is not queued, and its uri is free again', async (t) => {
  const { stack, input, output } = await openStack(t, false);
  const nowhere = new InputQueue({
    queueUrl: 'http://127.0.0.1:1/000000000000/q',
    endpoint: 'http://127.0.0.1:1',
    region: 'us-east-1',
    redisUrl: stack.redisUrl,
  });
  t.after(() => nowhere.close());
  await assert.rejects(nowhere.enqueue('a', { x: [1] }), { code: 'queue_unavailable', uri: 'a' });
  assert.equal(await output.status('a'), 'unknown');
  await input.enqueue('a', { x: [2] });
  assert.deepEqual((await output.wait('a')).outputs[0]?.data, Float32Array.of(2));
});

test('a client without redisUrl announces nothing: its record is unknown until it has its result', async (t) => {
  const { unannounced, output } = await openStack(t, false);
  await output.cancel('cancelled');
  // A result of the same millisecond would count as cancelled.
  await new Promise((resolve) => setTimeout(resolve, 2));
  for (const uri of ['a', 'a', 'cancelled']) await unannounced.enqueue(uri, { x: [1] });
  assert.ok(['unknown', 'succeeded'].includes(await output.status('a')));
  await output.wait('a');
  assert.equal(await output.status('a'), 'succeeded');
  await until(async () => (await output.status('cancelled')) === 'succeeded');
});

test('the routes answer in JSON: 200, 409 when it is too late, 400 without a uri; POST takes a uri again', async (t) => {
  const { stack, output } = await openStack(t, false);
  const ask = async (method: string, path: string, body?: object) => {
    const init = { method, ...(body ? { body: JSON.stringify(body) } : {}) };
    const response = await fetch(stack.url + path, init);
    return [response.status, await response.json()];
  };
  const post = (x: number, headers = {}, path = '/predictions') =>
    fetch(stack.url + path, {
      method: 'POST',
      headers,
      body: JSON.stringify({ uri: 'a', instances: [{ x: [x] }] }),
    });
  assert.equal((await post(1)).status, 202);
  await output.wait('a');
  assert.deepEqual(await ask('GET', '/status?uri=a'), [200, { uri: 'a', status: 'succeeded' }]);
  const late = 'too late to cancel: the record has, or had, its result';
  const conflict = { error: late, code: 'conflict', uri: 'a' };
  assert.deepEqual(await ask('POST', '/cancel?uri=a'), [409, conflict]);
  const odd = encodeURIComponent('../a/b?c=d&e+f #,画像');
  const uri = decodeURIComponent(odd);
  assert.deepEqual(await ask('POST', `/cancel?uri=${odd}`), [200, { uri, status: 'cancelled' }]);
  assert.deepEqual(await ask('GET', `/status?uri=${odd}`), [200, { uri, status: 'cancelled' }]);
  for (const [method, path] of [
    ['GET', '/status'],
    ['POST', '/cancel'],
  ] as const) {
    const [status, body] = await ask(method, path);
    assert.equal(status, 400);
    assert.match((body as { error: string }).error, /^uri: expected a text .*, got nothing$/);
  }
  await ask('POST', '/cancel?uri=b');
  const [status, body] = await ask('GET', '/predictions/b');
  assert.deepEqual(
    [status, body],
    [
      200,
      {
        uri: 'b',
        status: 'cancelled',
        error: 'the record was cancelled before it had a result',
        code: 'cancelled',
      },
    ],
  );
  const keyed = { 'idempotency-key': 'one' };
  for (const [response, identity] of [
    [await post(2), undefined],
    [await post(3, { prefer: 'respond-async' }, '/predict'), undefined],
    [await post(4, keyed), 'one'],
  ] as const) {
    assert.equal(response.status, 202);
    const accepted = (await response.json()) as { uri: string; identity: string };
    assert.equal(accepted.uri, 'a');
    if (identity !== undefined) assert.equal(accepted.identity, identity);
    assert.match(accepted.identity, /^[\w-]+$/);
  }
  await output.wait('a', { identity: 'one' });
  const [code, answer] = await ask('GET', '/predictions?uri=a&identity=one');
  assert.deepEqual([code, (answer as { identity: string }).identity], [200, 'one']);
  assert.equal((await ask('GET', '/predictions?uri=a&identity=two'))[0], 404);
  assert.equal((await ask('GET', '/predictions?uri=a&identity=%20'))[0], 400);
  assert.deepEqual(await ask('GET', '/status?uri=a&identity=one'), [
    200,
    { uri: 'a', identity: 'one', status: 'succeeded' },
  ]);
});
