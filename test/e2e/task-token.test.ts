/** The token of a task of Step Functions, from the clients to the attributes of the message: over HTTPS, and through SQS. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import type { MessageAttributes } from '../../lib/codecs/attributes.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { startAws } from '../../local/aws/aws.ts';
import { startGateway } from '../../local/gateway/gateway.ts';
import { InputQueue } from '../../sdk/index.ts';
import { cli, IMAGES } from '../cli/cli.ts';
import { python } from '../python/script.ts';
import { useAws } from '../support/environment.ts';
import { predictionsWith } from '../support/predictions.ts';
import { WITH_PYTHON } from '../support/python.ts';
import { STATE_MACHINE } from '../support/step-functions.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
const TOKEN = `AQCEAAAAKgAAAAMAAAAAAAAAAZ/+=$&"\\'`.repeat(20);
const NOTIFIED = { notify: 'flow', taskToken: TOKEN };

interface Sent {
  readonly uri: string;
  readonly notify: string | undefined;
  readonly taskToken: string | undefined;
}

const sentOf = (body: string, attributes: MessageAttributes): Sent => {
  const { uri }: { readonly uri: string } = JSON.parse(body);
  return { uri, notify: attributes['notify']?.StringValue, taskToken: attributes['taskToken']?.StringValue };
};

/** POST /predictions of a job with a state machine and a webhook, and what it puts into the queue. */
async function service(t: TestContext) {
  const sent: Sent[] = [];
  const handler = predictionsWith({
    settings: {
      ...DEFAULT_JOB,
      notify: { flow: { stepFunctions: STATE_MACHINE }, shop: { url: 'https://shop.example/' } },
    },
    queue: () => ({ send: async (body, attributes) => void sent.push(sentOf(body, attributes)) }),
    payloads: async () => ({ put: async () => 'key' }),
  });
  const gateway = await startGateway({
    port: 0,
    log: QUIET,
    routes: [{ method: 'POST', path: '/predictions', handler }],
  });
  t.after(() => gateway.close());
  return { sent, url: gateway.url };
}

test('a token travels from each client over HTTPS, in the body, and a body says it for one record alone', async (t) => {
  const { sent, url } = await service(t);
  const queue = new InputQueue({ frontendUrl: url });
  t.after(() => queue.close());
  await queue.enqueue('sdk', { x: [1] }, NOTIFIED);
  const post = async (body: object | string, type = 'application/json', query = '') => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${url}/predictions${query}`, {
      method: 'POST',
      headers: { 'content-type': type },
      body: text,
    });
    return { status: response.status, text: await response.text() };
  };
  assert.equal((await post({ uri: 'body', instances: [{ x: [1] }], ...NOTIFIED })).status, 202);
  const lines = ['line-1', 'line-2'].map((uri, i) =>
    JSON.stringify({ uri, instances: [{ x: [1] }], notify: 'flow', taskToken: `${TOKEN}${i}` }),
  );
  assert.equal((await post(lines.join('\n'), 'application/x-ndjson')).status, 202);
  const all = [
    { uri: 'sdk', ...NOTIFIED },
    { uri: 'body', ...NOTIFIED },
    { uri: 'line-1', notify: 'flow', taskToken: `${TOKEN}0` },
    { uri: 'line-2', notify: 'flow', taskToken: `${TOKEN}1` },
  ];
  assert.deepEqual(sent, all);

  const refused = [
    [
      await post({ instances: [{ x: 1 }, { x: 2 }], ...NOTIFIED }),
      /one record ends a task, and the body has 2/,
    ],
    [await post({ instances: [{ x: 1 }], notify: 'flow' }), /give its token as taskToken/],
    [await post({ instances: [{ x: 1 }], notify: 'shop', taskToken: 't' }), /has no stepFunctions/],
    [await post({ instances: [{ x: 1 }], taskToken: 't' }), /needs notify/],
    [await post({ instances: [{ x: 1 }], ...NOTIFIED }, undefined, '?taskToken=t'), /it belongs in the body/],
  ] as const;
  for (const [{ status, text }, message] of refused) {
    assert.equal(status, 400);
    assert.match(text, message);
  }
  assert.equal(sent.length, all.length);
  await assert.rejects(queue.enqueue('a', { x: [1] }, { taskToken: 't' }), { message: /needs notify/ });
});

test('the command line gives one record a token', async (t) => {
  const { sent, url } = await service(t);
  const flow = ['--notify', 'flow', '--task-token', TOKEN, '--url', url];
  const image = join(IMAGES, 'digit-3.png');
  const { code, stderr } = await cli(['enqueue', `one=${image}`, ...flow]);
  assert.equal(code, 0, stderr);
  assert.deepEqual(sent, [{ uri: 'one', ...NOTIFIED }]);
  const two = await cli(['enqueue', `one=${image}`, `two=${image}`, ...flow]);
  assert.match(two.stderr, /--task-token goes with one record, got 2/);
  const alone = await cli(['enqueue', `one=${image}`, '--task-token', TOKEN, '--url', url]);
  assert.match(alone.stderr, /--task-token goes with --notify/);
});

test('a token travels through SQS as an attribute of the message', async (t) => {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  useAws(aws.environment);
  const { url: queueUrl } = await aws.createQueue({ name: 'q', visibilitySeconds: 60, maxReceiveCount: 3 });
  const queue = new InputQueue({ queueUrl, endpoint: aws.url, region: aws.region });
  t.after(() => queue.close());
  await queue.enqueueMany([{ uri: 'many', inputs: { x: [1] }, ...NOTIFIED }]);
  const ask = new ReceiveMessageCommand({ QueueUrl: queueUrl, MessageAttributeNames: ['All'] });
  const { Messages: [message] = [] } = await aws.sqs.send(ask);
  assert.equal(message?.MessageAttributes?.['taskToken']?.StringValue, TOKEN);
  assert.equal(message?.MessageAttributes?.['notify']?.StringValue, 'flow');
});

test('a token travels from the Python client, over HTTPS and through SQS', WITH_PYTHON, async (t) => {
  const { sent, url } = await service(t);
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  const { url: queueUrl } = await aws.createQueue({ name: 'q', visibilitySeconds: 60, maxReceiveCount: 3 });
  const shown = await python(
    0,
    `
from cluster_serving import Client, Record
token = ${JSON.stringify(TOKEN)}
Client(${JSON.stringify(url)}).enqueue("one", {"x": [1.0]}, notify="flow", task_token=token)
Client(sqs=${JSON.stringify(queueUrl)}).enqueue_many([Record("two", {"x": [1.0]}, None, "flow", token)])
for wrong in ({"task_token": token}, {"notify": "flow", "task_token": "a b"}, {"notify": "flow", "task_token": "x" * 2049}):
    show(error_of(lambda: Client(${JSON.stringify(url)}).enqueue("a", {"x": 1.0}, **wrong))[2])
`,
    aws.environment,
  );
  assert.deepEqual(sent, [{ uri: 'one', ...NOTIFIED }]);
  const ask = new ReceiveMessageCommand({ QueueUrl: queueUrl, MessageAttributeNames: ['All'] });
  const { Messages: [message] = [] } = await aws.sqs.send(ask);
  assert.equal(message?.MessageAttributes?.['taskToken']?.StringValue, TOKEN);
  assert.deepEqual(
    shown.map((text) => /needs notify|at most 2048/.exec(String(text))?.[0]),
    ['needs notify', 'at most 2048', 'at most 2048'],
  );
});
