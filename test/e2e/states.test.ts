import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { GetQueueAttributesCommand, ReceiveMessageCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import type { Stack } from '../../local/stack.ts';
import { InputQueue, OutputQueue, type ServingError } from '../../sdk/index.ts';
import { identityModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { clientOptions, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** The stack with a model that returns its input, and another queue without a consumer. */
async function openStack(t: TestContext, preferEmbeddedRedis: boolean) {
  const modelDirectory = await temporaryFolder(t);
  const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 'n'] }]);
  await writeFile(join(modelDirectory, 'model.onnx'), model);
  const stack = await testStack(t, { config: '', modelDirectory, preferEmbeddedRedis });
  const aside = await stack.aws.createQueue({ name: 'aside' });
  const options = clientOptions(stack);
  const claiming = { ...options.input, redisUrl: stack.redisUrl };
  const queues = {
    input: new InputQueue(claiming),
    other: new InputQueue(claiming),
    unclaimed: new InputQueue(options.input),
    waiting: new InputQueue({ ...claiming, queueUrl: aside.url }),
    inputOverHttp: new InputQueue({ frontendUrl: stack.url }),
    output: new OutputQueue(options.output),
    outputOverHttp: new OutputQueue({ url: stack.url }),
  };
  t.after(() => Promise.all(Object.values(queues).map((queue) => queue.close())));
  return { stack, asideUrl: aside.url, outputs: [queues.output, queues.outputOverHttp] as const, ...queues };
}

/** Lets the records that were held aside run. */
async function letRun(stack: Stack, asideUrl: string, count: number): Promise<void> {
  const { sqs } = stack.aws;
  const bodies: string[] = [];
  await until(async () => {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl: asideUrl, MaxNumberOfMessages: 10 }),
    );
    bodies.push(...Messages.map(({ Body }) => Body as string));
    return bodies.length === count;
  });
  for (const body of bodies)
    await sqs.send(new SendMessageCommand({ QueueUrl: stack.queueUrl, MessageBody: body }));
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

  test(`${kind}: of two who enqueue one uri with different inputs one wins, and its input is what ran, fifty times`, async (t) => {
    const { input, other, output } = await openStack(t, preferEmbedded);
    const winners = new Map<string, number>();
    for (let i = 0; i < 50; i++) {
      const outcomes = await Promise.allSettled([
        input.enqueue(`uri-${i}`, { x: [1] }),
        other.enqueue(`uri-${i}`, { x: [2] }),
      ]);
      const won = outcomes.flatMap(({ status }, at) => (status === 'fulfilled' ? [at + 1] : []));
      assert.equal(won.length, 1);
      winners.set(`uri-${i}`, won[0] as number);
      const lost = outcomes.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
      const { code, uri } = lost.reason as ServingError;
      assert.deepEqual([code, uri], ['conflict', `uri-${i}`]);
    }
    for (const [uri, x] of winners)
      assert.deepEqual((await output.wait(uri)).outputs[0]?.data, Float32Array.of(x));
  });
}

test('the same record enqueued twice has one result, before it ran and after, over SQS and over HTTPS', async (t) => {
  const { stack, input, inputOverHttp, output } = await openStack(t, false);
  for (const queue of [input, inputOverHttp]) await queue.enqueue('a', { x: [1, 2] });
  const first = await output.wait('a');
  await drained(stack);
  for (const queue of [input, inputOverHttp]) await queue.enqueue('a', { x: [1, 2] });
  await drained(stack);
  assert.equal((await output.query('a'))?.finishedAt, first.finishedAt);
  for (const queue of [input, inputOverHttp])
    await assert.rejects(queue.enqueue('a', { x: [3] }), { code: 'conflict', uri: 'a' });
  assert.deepEqual((await output.queryAndDelete('a'))?.outputs[0]?.data, Float32Array.of(1, 2));
  await input.enqueue('a', { x: [3] });
  assert.deepEqual((await output.wait('a')).outputs[0]?.data, Float32Array.of(3));
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

test('who gives no redisUrl claims nothing: its record is unknown until it has its result', async (t) => {
  const { unclaimed, output } = await openStack(t, false);
  await output.cancel('cancelled');
  for (const uri of ['a', 'a', 'cancelled']) await unclaimed.enqueue(uri, { x: [1] });
  assert.ok(['unknown', 'succeeded'].includes(await output.status('a')));
  await output.wait('a');
  assert.equal(await output.status('a'), 'succeeded');
  await assert.rejects(output.wait('cancelled'), { code: 'cancelled' });
});

test('the routes answer in JSON: 200, 409 when it is too late, 400 without a uri; POST refuses a conflict', async (t) => {
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
  const late = 'too late to cancel: the record has a result';
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
  for (const response of [await post(2), await post(2, { prefer: 'respond-async' }, '/predict')]) {
    assert.equal(response.status, 409);
    assert.equal(((await response.json()) as { code: string }).code, 'conflict');
  }
});
