import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { type Fetch, InputQueue, type ServingError } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';

/** The API; it takes each record after `answer` has resolved. */
function queueOver(answer: (body: string) => Promise<Response>) {
  const fetch: Fetch = (_, { body }) => answer(body as string);
  return new InputQueue({ frontendUrl: 'https://api.example', fetch });
}

const taken = () => new Response('{"uri":"a"}', { status: 202 });
const refused = () => new Response('{"error":"full","code":"queue_unavailable"}', { status: 503 });
const records = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ uri: `r${i}`, inputs: { x: [i] } }));

test('an error of enqueue carries code and uri, for any cause', async () => {
  const queue = queueOver(async () => refused());
  await assert.rejects(queue.enqueue('a', { x: [1] }), { code: 'queue_unavailable', uri: 'a' });
  await assert.rejects(queue.enqueue('b', {}), { code: 'bad_request', uri: 'b' });
});

test('enqueueMany throws every record that was not taken, with its uri, and says how many there were', async () => {
  const queue = queueOver(async (body) => (body.includes('"r1"') ? refused() : taken()));
  await assert.rejects(queue.enqueueMany(records(3)), (error) => {
    assert.ok(error instanceof AggregateError);
    assert.equal(error.message, '1 of 3 records were not enqueued');
    assert.deepEqual(
      error.errors.map((one) => (one as ServingError).uri),
      ['r1'],
    );
    return true;
  });
});

test('enqueueMany has at most 320 records under way, however many there are', async () => {
  let flying = 0;
  let most = 0;
  const queue = queueOver(async () => {
    most = Math.max(most, ++flying);
    await new Promise((resolve) => setImmediate(resolve));
    flying--;
    return taken();
  });
  assert.equal(await queue.enqueueMany(records(700)), 700);
  assert.ok(most <= 320, `${most}`);
});

test('nothing is under way any more when enqueueMany throws what its records threw', async () => {
  let arrived = 0;
  const queue = queueOver(async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    arrived++;
    return taken();
  });
  function* broken() {
    yield* records(3);
    throw new Error('the file ends here');
  }
  await assert.rejects(queue.enqueueMany(broken()), /the file ends here/);
  assert.equal(arrived, 3);
});

test('predict ends with timeout after its own time', async () => {
  const fetch: Fetch = (_, { signal }) =>
    new Promise((_resolve, reject) => {
      const alive = setTimeout(() => reject(new Error('it was not ended')), 2_000);
      signal?.addEventListener('abort', () => {
        clearTimeout(alive);
        reject(signal.reason as Error);
      });
    });
  const queue = new InputQueue({ frontendUrl: 'https://api.example', fetch });
  await assert.rejects(queue.predict({ instances: [{ x: 1 }] }, 20), { code: 'timeout' });
});

test('a queue that was closed takes no record', async () => {
  const queue = new InputQueue({ queueUrl: 'http://127.0.0.1:9/0/q', region: 'local' });
  await queue.close();
  await assert.rejects(queue.enqueue('a', { x: [1] }), { code: 'bad_request', message: /was closed/ });
});

/** SQS, which finds the queue when it is asked for the second time, with a url that leads elsewhere. */
async function startSqs(t: TestContext) {
  const asked: string[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = JSON.parse(await text(request)) as { Entries?: { MessageBody: string }[] };
    const action = String(request.headers['x-amz-target']).replace('AmazonSQS.', '');
    asked.push(action);
    response.setHeader('content-type', 'application/x-amz-json-1.0');
    if (asked.length === 1) {
      response.statusCode = 400;
      return void response.end('{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"none"}');
    }
    if (action === 'GetQueueUrl')
      return void response.end(JSON.stringify({ QueueUrl: 'http://127.0.0.1:9/0/q' }));
    const message = body.Entries?.[0]?.MessageBody ?? '';
    const MD5OfMessageBody = createHash('md5').update(message).digest('hex');
    response.end(JSON.stringify({ Successful: [{ Id: '0', MD5OfMessageBody }] }));
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const KEYS = { AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' };
const NOWHERE = 'http://127.0.0.1:9';
const ENDPOINTS: Readonly<Record<string, (url: string) => Readonly<Record<string, string>>>> = {
  'the option': () => ({}),
  AWS_ENDPOINT_URL: (url) => ({ AWS_ENDPOINT_URL: url }),
  AWS_ENDPOINT_URL_SQS: (url) => ({ AWS_ENDPOINT_URL: NOWHERE, AWS_ENDPOINT_URL_SQS: url }),
};

for (const [name, variables] of Object.entries(ENDPOINTS)) {
  test(`a queue is looked for again by the next record, and asked at the endpoint of ${name}`, async (t) => {
    const { asked, url } = await startSqs(t);
    const given = variables(url);
    useAws({ ...KEYS, ...given });
    t.after(() => delete process.env['AWS_ENDPOINT_URL']);
    const option = Object.keys(given).length === 0 ? { endpoint: url } : {};
    const queue = new InputQueue({ ...option, region: 'local' });
    t.after(() => queue.close());
    await assert.rejects(queue.enqueue('a', { x: [1] }), { code: 'queue_unavailable', uri: 'a' });
    await queue.enqueue('a', { x: [1] });
    assert.deepEqual(asked, ['GetQueueUrl', 'GetQueueUrl', 'SendMessageBatch']);
  });
}
