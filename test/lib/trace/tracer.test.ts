/** Tracing where a receiver or a record makes trouble. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { APIGatewayProxyEventV2, Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { newAttributes, traceAttributes } from '../../../lib/codecs/attributes.ts';
import { CLOCK } from '../../../lib/compose/clock.ts';
import type { Handler } from '../../../lib/compose/events.ts';
import { observeHandler } from '../../../lib/compose/observe-handler.ts';
import { observers } from '../../../lib/compose/observers.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { Tracing } from '../../../lib/compose/traced.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { readTrace, type TraceContext } from '../../../lib/contract/trace.ts';
import { Spans } from '../../../lib/observe/spans.ts';
import type { FinishedRecord } from '../../../lib/pipeline/decode.ts';
import type { Sink } from '../../../lib/pipeline/serve.ts';
import type { Sender } from '../../../lib/pipeline/submit.ts';
import { type Receiver, startReceiver } from '../../support/otlp.ts';
import { until } from '../../support/until.ts';

const TRACE = readTrace({ traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }) as TraceContext;
const UNSAMPLED = { ...TRACE, isSampled: false };
const CONTEXT = { getRemainingTimeInMillis: () => 10_000 } as Context;

/** A function, whose path is observed by spans alone. */
class Traced {
  readonly #spans: Spans;
  readonly #scope: Scope;
  readonly #tracing: Tracing;

  constructor(spans: Spans) {
    this.#spans = spans;
    this.#tracing = new Tracing(spans);
    this.#scope = new Scope(readEnvironment({}), { tracing: this.#tracing });
  }

  handler<E, R>(kind: 'http' | 'sqs', handler: Handler<E, R>): Handler<E, R> {
    return observeHandler(this.#scope, kind, handler);
  }

  sender(sender: Sender): Sender {
    return this.#tracing.sender(sender, 'http://sqs/1/jobs', this.#scope.get(observers));
  }

  sink(sink: Sink): Sink {
    const told = this.#scope.get(observers);
    return {
      async save(finished, model) {
        const unsaved = await sink.save(finished, model);
        told.recordsStored?.({ finished, unsaved, model });
        return unsaved;
      },
    };
  }

  close(): Promise<void> {
    return this.#spans.close();
  }
}

function tracerTo(t: TestContext, url: string, variables: Readonly<Record<string, string>> = {}) {
  const warned: string[] = [];
  const spans = new Spans(
    { OTEL_EXPORTER_OTLP_ENDPOINT: url, ...variables },
    { service: 'job', isFrozen: true, now: CLOCK.now, warn: (text) => warned.push(text) },
  );
  t.after(() => spans.close());
  const tracer = new Traced(spans);
  return { tracer, warned };
}

/** A busy machine may need longer than the tracer waits. */
async function received(tracer: Traced, receiver: Receiver, count: number): Promise<void> {
  await tracer.close();
  await until(() => receiver.spans.length >= count);
  assert.equal(receiver.spans.length, count);
}

const message = (messageId: string, trace: TraceContext | undefined, attempt = 1) => ({
  messageId,
  body: '',
  eventSourceARN: 'arn:aws:sqs:local:0:jobs',
  attributes: { SentTimestamp: '1', ApproximateReceiveCount: String(attempt) },
  messageAttributes: Object.fromEntries(
    Object.entries(newAttributes(`i-${messageId}`, trace)).map(([name, { StringValue }]) => [
      name,
      { stringValue: StringValue, dataType: 'String' },
    ]),
  ),
});
const eventOf = (...Records: object[]) => ({ Records }) as unknown as SQSEvent;
const returning = (...ids: string[]): SQSBatchResponse => ({
  batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })),
});

/** A batch function handles its records: it saves those that it names, and the others return. */
function batchOf(tracer: Traced, outcomes: Readonly<Record<string, ServingError | undefined>>) {
  const sink = tracer.sink({ save: async () => [] });
  return tracer.handler('sqs', async ({ Records }: SQSEvent) => {
    const isSaved = (id: string) => Object.hasOwn(outcomes, id);
    const finished = Records.filter(({ messageId }) => isSaved(messageId)).map(({ messageId: id }) => {
      const error = outcomes[id];
      const outcome = error ? { ok: false, error } : { ok: true, outputs: [] };
      return { id, uri: `uri-${id}`, outcome } as unknown as FinishedRecord;
    });
    await sink.save(finished, 'v');
    return returning(...Records.map(({ messageId }) => messageId).filter((id) => !isSaved(id)));
  });
}

test('each delivery of a record is a span below its sender, and says how it ended', async (t) => {
  const receiver = await startReceiver(t);
  const { tracer } = tracerTo(t, receiver.url);
  await batchOf(tracer, {})(eventOf(message('m', TRACE)), CONTEXT);
  const failure = new ServingError('model_failed', 'no');
  await batchOf(tracer, { m: undefined, other: failure })(
    eventOf(message('m', TRACE, 2), message('other', undefined)),
    CONTEXT,
  );
  await received(tracer, receiver, 5);
  const records = receiver.spans.filter(({ name }) => name === 'process jobs');
  const facts = records.map(({ parentSpanId, attributes, status }) => [
    parentSpanId,
    attributes['messaging.message.id'],
    attributes['cluster_serving.identity'],
    attributes['cluster_serving.attempt'],
    attributes['cluster_serving.uri'],
    status,
  ]);
  assert.deepEqual(facts, [
    [TRACE.spanId, 'm', 'i-m', '1', undefined, { code: 2, message: 'returned' }],
    [TRACE.spanId, 'm', 'i-m', '2', 'uri-m', {}],
    [undefined, 'other', 'i-other', '1', 'uri-other', { code: 2, message: 'model_failed' }],
  ]);
  const batches = receiver.spans.filter(({ name }) => name === 'process batch jobs');
  assert.deepEqual(
    batches.map(({ attributes, links }) => [attributes['messaging.batch.message_count'], links[0]?.spanId]),
    [
      ['1', TRACE.spanId],
      ['2', TRACE.spanId],
    ],
  );
  assert.equal(batches[1]?.links[1]?.spanId, records[2]?.spanId);
  for (const record of records) assert.ok(batches.some(({ spanId }) => spanId === record.links[0]?.spanId));
});

test('a handler that throws leaves spans that say so', async (t) => {
  const receiver = await startReceiver(t);
  const { tracer } = tracerTo(t, receiver.url);
  const broken = tracer.handler('sqs', async (): Promise<SQSBatchResponse> => {
    throw new Error('broken');
  });
  await assert.rejects(broken(eventOf(message('m', TRACE)), CONTEXT), { message: 'broken' });
  await received(tracer, receiver, 2);
  assert.deepEqual(
    receiver.spans.map(({ name, status }) => [name, status.message]),
    [
      ['process jobs', 'returned'],
      ['process batch jobs', 'internal'],
    ],
  );
});

test('a span that is not sampled is not sent, and its trace continues', async (t) => {
  const receiver = await startReceiver(t);
  const { tracer } = tracerTo(t, receiver.url);
  await batchOf(tracer, { m: undefined })(eventOf(message('m', UNSAMPLED)), CONTEXT);
  const sent: object[] = [];
  const sender = tracer.sender({ send: async (...call) => void sent.push(call) });
  await sender.send('body', newAttributes('i', UNSAMPLED), 'tenant');
  await sender.send('a record at the limit of its size', newAttributes('i'));
  await tracer.close();
  assert.deepEqual([receiver.spans, receiver.requests], [[], []]);
  const [[body, attributes, group] = [], [, untraced] = []] = sent as [
    string,
    ReturnType<typeof newAttributes>,
    string,
  ][];
  assert.deepEqual(untraced, newAttributes('i'));
  assert.deepEqual([body, group, attributes?.['identity']?.StringValue], ['body', 'tenant', 'i']);
  const passed = readTrace({ traceparent: attributes?.['traceparent']?.StringValue });
  assert.deepEqual({ ...passed, spanId: TRACE.spanId }, UNSAMPLED);
  assert.notEqual(passed?.spanId, TRACE.spanId);
});

test('a record that SQS does not take is a failed span, and its error stays', async (t) => {
  const receiver = await startReceiver(t);
  const { tracer } = tracerTo(t, receiver.url);
  const error = new ServingError('queue_unavailable', 'away');
  const sender = tracer.sender({ send: () => Promise.reject(error) });
  await assert.rejects(sender.send('body', traceAttributes(TRACE)), error);
  await received(tracer, receiver, 1);
  assert.deepEqual(receiver.spans[0]?.status, { code: 2, message: 'queue_unavailable' });
});

const request = { routeKey: 'POST /predict', rawPath: '/predict', headers: {}, requestContext: { http: {} } };
const ask = (tracer: Traced) =>
  tracer.handler<APIGatewayProxyEventV2, { statusCode: number; body: string }>('http', async () => ({
    statusCode: 200,
    body: 'answer',
  }))(request as unknown as APIGatewayProxyEventV2, CONTEXT);

for (const [what, timeout, answer] of [
  ['is silent', '50', () => undefined],
  ['refuses', '10000', (response) => response.writeHead(503).end('no')],
  ['redirects', '10000', (response) => response.writeHead(307, { location: 'http://127.0.0.1:9/' }).end()],
] as readonly [string, string, NonNullable<Parameters<typeof startReceiver>[1]>][])
  test(`a receiver that ${what} costs one warning, and is left alone for a while`, async (t) => {
    const receiver = await startReceiver(t, answer);
    const { tracer, warned } = tracerTo(t, receiver.url, { OTEL_EXPORTER_OTLP_TIMEOUT: timeout });
    for (let i = 0; i < 3; i++) assert.equal((await ask(tracer)).body, 'answer');
    await tracer.close();
    assert.equal((await ask(tracer)).body, 'answer');
    await tracer.close();
    await until(() => warned.length > 0);
    assert.equal(warned.length, 1, warned.join('\n'));
    assert.match(warned[0] as string, /^http:\/\/127\.0\.0\.1:\d+\/v1\/traces takes no spans: /);
    // On a busy machine its time is over before it has come.
    assert.ok(receiver.requests.length <= 1);
  });

test('requests are answered while the receiver is down', async (t) => {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  const { tracer, warned } = tracerTo(t, `http://127.0.0.1:${port}`);
  assert.equal((await ask(tracer)).statusCode, 200);
  await tracer.close();
  await until(() => warned.length > 0);
  assert.match(warned.join(), /ECONNREFUSED/);
});

test('no more spans wait than there is room for', async (t) => {
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const receiver = await startReceiver(t, (response) => void gate.then(() => response.end('{}')));
  const { tracer, warned } = tracerTo(t, receiver.url);
  const Records = Array.from({ length: 3_000 }, (_, i) => message(String(i), TRACE));
  const all = tracer.handler<SQSEvent, SQSBatchResponse>('sqs', async () => returning());
  const hurried = { getRemainingTimeInMillis: () => 0 } as Context;
  await all(eventOf(...Records), hurried);
  open();
  await received(tracer, receiver, 2_048);
  assert.deepEqual(warned, []);
});
