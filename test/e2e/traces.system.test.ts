/** The way of a request and of a record, as the receiver of its spans sees it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { predictions } from '../../functions/predictions.ts';
import { lambdaHandler } from '../../lib/compose/handler.ts';
import { composePredictions } from '../../lib/compose/predictions.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { type ReceivedSpan, type Receiver, startReceiver } from '../support/otlp.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';

const CLIENT_SPAN = 'b7ad6b7169203331';
const SERVER = 2;
const PRODUCER = 4;
const CONSUMER = 5;
const PROCESS = 'process cluster-serving-serving_stream';
const SEND = 'send cluster-serving-serving_stream';

const hooks: (() => Promise<void>)[] = [];
const own = { after: (hook: () => Promise<void>) => void hooks.unshift(hook) };
let stack: Stack;
let receiver: Receiver;
let input: InputQueue;
let output: OutputQueue;
let image: string;

before(async () => {
  receiver = await startReceiver(own);
  Object.assign(process.env, {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b',
  });
  stack = await testStack(own);
  const options = clientOptions(stack);
  [input, output] = [new InputQueue(options.input), new OutputQueue(options.output)];
  own.after(async () => void (await Promise.all([input.close(), output.close()])));
  image = (await readFile(join(SAMPLE, 'images/digit-7.png'))).toString('base64');
});
after(async () => {
  for (const hook of hooks) await hook();
});

let traces = 0;
const newTrace = () => (0xabcdef + traces++).toString(16).padStart(32, '1');
const traceparentOf = (traceId: string, flags = '01') => `00-${traceId}-${CLIENT_SPAN}-${flags}`;

async function post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(stack.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    traceparent: response.headers.get('traceparent') ?? '',
    body: (await response.json()) as { uri: string },
  };
}

const contextOf = ({ traceId, spanId }: ReceivedSpan) => [traceId, spanId];
const isWithin = (inner: ReceivedSpan, outer: ReceivedSpan) =>
  BigInt(outer.startTimeUnixNano) <= BigInt(inner.startTimeUnixNano) &&
  BigInt(inner.endTimeUnixNano) <= BigInt(outer.endTimeUnixNano);

/** The span of the event in which a record was run. */
async function batchOf(record: ReceivedSpan): Promise<ReceivedSpan> {
  const [link] = record.links;
  const found = await receiver.trace(link?.traceId ?? '', `process batch ${PROCESS.slice(8)}`);
  return Object.values(found)[0] as ReceivedSpan;
}

test('a record posted to /predictions is one trace from the client to its result', async () => {
  const traceId = newTrace();
  const headers = { traceparent: traceparentOf(traceId), tracestate: 'vendor=1' };
  const answer = await post('/predictions', { uri: 'posted', instances: [{ image }] }, headers);
  assert.equal(answer.status, 202);
  await output.wait('posted', { timeoutMs: 60_000 });
  const found = await receiver.trace(traceId, 'POST /predictions', SEND, PROCESS);
  const [server, send, record] = ['POST /predictions', SEND, PROCESS].map((name) => found[name]) as [
    ReceivedSpan,
    ReceivedSpan,
    ReceivedSpan,
  ];
  assert.deepEqual([server.kind, send.kind, record.kind], [SERVER, PRODUCER, CONSUMER]);
  assert.deepEqual(
    [server.parentSpanId, send.parentSpanId, record.parentSpanId],
    [CLIENT_SPAN, server.spanId, send.spanId],
  );
  assert.deepEqual([server.status, send.status, record.status], [{}, {}, {}]);
  assert.equal(answer.traceparent, `00-${traceId}-${server.spanId}-01`);
  assert.ok(isWithin(send, server));
  // SQS may deliver a message before it has answered its sender.
  assert.ok(BigInt(record.startTimeUnixNano) >= BigInt(send.startTimeUnixNano));
  assert.deepEqual(
    [server, send, record].map(({ traceState }) => traceState),
    ['vendor=1', 'vendor=1', 'vendor=1'],
  );
  assert.equal(server.attributes['http.response.status_code'], '202');
  assert.equal(server.attributes['http.route'], '/predictions');
  assert.equal(record.attributes['cluster_serving.uri'], 'posted');
  assert.equal(record.attributes['cluster_serving.attempt'], '1');
  assert.equal(record.resource['service.name'], 'serving_stream');
  const batch = await batchOf(record);
  assert.deepEqual([batch.kind, batch.parentSpanId], [CONSUMER, undefined]);
  assert.deepEqual(
    batch.links.map((link) => [link.traceId, link.spanId]),
    [contextOf(send)],
  );
  assert.ok(isWithin(record, batch));
  assert.equal(receiver.requests[0]?.['x-key'], 'a b');
});

test('a record that the SDK sends over SQS belongs to the trace of its sender, and a failed one says why', async () => {
  const traceId = newTrace();
  const traceparent = traceparentOf(traceId);
  const traced = { traceparent, tracestate: 'vendor=2' };
  await input.enqueue('over SQS', { image: { b64: 'bm8gaW1hZ2U=' } }, traced);
  await assert.rejects(output.wait('over SQS', { timeoutMs: 60_000 }), { code: 'bad_input' });
  const { [PROCESS]: record } = await receiver.trace(traceId, PROCESS);
  assert.equal(record?.parentSpanId, CLIENT_SPAN);
  assert.deepEqual(record.status, { code: 2, message: 'bad_input' });
  assert.equal(record.attributes['error.type'], 'bad_input');
  assert.equal(record.traceState, 'vendor=2');
});

test('a request to /predict is one span, and its answer names it', async () => {
  const traceId = newTrace();
  const good = await post('/predict', { instances: [{ image }] }, { traceparent: traceparentOf(traceId) });
  const { 'POST /predict': span } = await receiver.trace(traceId, 'POST /predict');
  assert.equal(good.traceparent, `00-${traceId}-${span?.spanId}-01`);
  assert.deepEqual([span?.parentSpanId, span?.kind, span?.status], [CLIENT_SPAN, SERVER, {}]);
  // A caller's mistake is not a failure of the service.
  const other = newTrace();
  await input
    .predict('{"instances":[]}', {
      timeoutMs: 20_000,
      traceparent: traceparentOf(other),
      tracestate: 'vendor=3,other=4',
    })
    .catch(() => undefined);
  const { 'POST /predict': refused } = await receiver.trace(other, 'POST /predict');
  assert.deepEqual(refused?.status, {});
  assert.equal(refused.attributes['http.response.status_code'], '400');
  assert.equal(refused.traceState, 'vendor=3,other=4');
});

test('without a valid traceparent a new trace begins, and one that is not sampled leaves no span', async () => {
  const malformed = await post('/predict', { instances: [{ image }] }, { traceparent: 'nonsense' });
  const [, traceId = ''] = malformed.traceparent.split('-');
  const { 'POST /predict': span } = await receiver.trace(traceId, 'POST /predict');
  assert.equal(span?.parentSpanId, undefined);
  const unsampled = newTrace();
  const headers = { traceparent: traceparentOf(unsampled, '00') };
  const answer = await post('/predictions', { uri: 'unsampled', instances: [{ image }] }, headers);
  assert.match(answer.traceparent, new RegExp(`^00-${unsampled}-(?!${CLIENT_SPAN})[0-9a-f]{16}-00$`));
  await output.wait('unsampled', { timeoutMs: 60_000 });
  await input.enqueue('sampled', { image: { b64: image } });
  await output.wait('sampled', { timeoutMs: 60_000 });
  const uriOf = ({ attributes }: ReceivedSpan) => attributes['cluster_serving.uri'];
  while (!receiver.spans.some((one) => uriOf(one) === 'sampled'))
    await post('/predict', { instances: [{ image }] });
  assert.ok(!receiver.spans.some((one) => uriOf(one) === 'unsampled' || one.traceId === unsampled));
});

test('a deployed function sends its spans, and its record ends in the same trace', async () => {
  const environment = {
    AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
    AWS_ENDPOINT_URL: stack.aws.url,
    CLUSTER_SERVING_QUEUE_URL: stack.queueUrl,
    CLUSTER_SERVING_METRICS: 'off',
    OTEL_SERVICE_NAME: 'deployed',
  };
  Object.assign(process.env, environment);
  const handler = await lambdaHandler('http', predictions, composePredictions);
  const traceId = newTrace();
  const event = {
    rawPath: '/predictions',
    rawQueryString: '',
    routeKey: 'POST /predictions',
    headers: { 'content-type': 'application/json', traceparent: traceparentOf(traceId) },
    requestContext: { http: { method: 'POST' } },
    isBase64Encoded: false,
    body: JSON.stringify({ uri: 'deployed', instances: [{ image }] }),
  };
  const context = { awsRequestId: 'one', getRemainingTimeInMillis: () => 29_000 };
  const answer = await handler(event as unknown as APIGatewayProxyEventV2, context as unknown as Context);
  assert.equal(answer.statusCode, 202, answer.body);
  await output.wait('deployed', { timeoutMs: 60_000 });
  const found = await receiver.trace(traceId, 'POST /predictions', SEND, PROCESS);
  assert.equal(found[SEND]?.parentSpanId, found['POST /predictions']?.spanId);
  assert.equal(found[PROCESS]?.parentSpanId, found[SEND]?.spanId);
  assert.equal(found['POST /predictions']?.resource['service.name'], 'deployed');
});
