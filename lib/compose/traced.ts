/**
 * The path where spans have a receiver, loaded only there. The trace context belongs to it: it is read from a request and from a
 * message, and continued in log lines, in what is sent and in the answer. An observer records the spans.
 */
import type { APIGatewayProxyEventV2, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { enqueueOf, traceAttributes } from '../codecs/attributes.ts';
import type { ErrorCode } from '../contract/errors.ts';
import { logWith } from '../contract/log.ts';
import { readTrace, type TraceContext, type TraceSpan, traceHeaders } from '../contract/trace.ts';
import type { Spans } from '../observe/spans.ts';
import type { Observers } from '../pipeline/observer.ts';
import type { Sender } from '../pipeline/submit.ts';
import type { EventKind, Handler } from './events.ts';

type HttpEvent = Pick<APIGatewayProxyEventV2, 'requestContext'> & Partial<APIGatewayProxyEventV2>;
type HttpAnswer = { readonly statusCode?: number; readonly headers?: object };
/** Any handler is one of these; the kind of its events says of which. */
type AnyHandler = Handler<never, unknown>;
type Serve<E, R> = (handler: AnyHandler, begin: BeginSpan, told: Observers) => Handler<E, R>;

/** Begins a span: below its parent, or where a trace begins. */
type BeginSpan = (parent?: TraceContext) => TraceSpan;

export class Tracing {
  readonly spans: Spans;

  constructor(spans: Spans) {
    this.spans = spans;
  }

  /** @param kind of the handler's events, which says what its answers are */
  handler<E, R>(kind: EventKind, handler: Handler<E, R>, told: Observers): Handler<E, R> {
    if (kind === 'schedule') return handler;
    const serve: Serve<never, unknown> = kind === 'http' ? serveCall : serveEvent;
    return serve(handler, this.#begin, told) as Handler<E, R>;
  }

  /** Its messages carry the context of their span. */
  sender(sender: Sender, queueUrl: string, told: Observers): Sender {
    const queue = queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
    return {
      send: async (body, attributes, ...rest) => {
        const { traceparent, tracestate } = attributes;
        const parent = readTrace({
          traceparent: traceparent?.StringValue,
          tracestate: tracestate?.StringValue,
        });
        // A record that is at the limit of its size has no room for one. Its trace begins when it is delivered.
        if (!parent) return sender.send(body, attributes, ...rest);
        const span = this.#begin(parent);
        const startedMs = told.now();
        let error: ErrorCode | undefined = 'queue_unavailable';
        try {
          await sender.send(body, { ...attributes, ...traceAttributes(span.context) }, ...rest);
          error = undefined;
        } finally {
          told.messageSent?.({ span, queue, startedMs, error });
        }
      },
    };
  }

  readonly #begin: BeginSpan = (parent) => {
    const traceId = parent?.traceId ?? randomHex(16);
    const isSampled = this.spans.isSampled(traceId, parent);
    const state = parent?.state === undefined ? {} : { state: parent.state };
    return { context: { traceId, spanId: randomHex(8), isSampled, ...state }, parentId: parent?.spanId };
  };
}

/** A traced request carries the context of its span, and its answer too. */
const serveCall: Serve<HttpEvent, HttpAnswer> = (any, begin, told) => async (event, context) => {
  const handler = any as Handler<HttpEvent, HttpAnswer>;
  const { headers = {}, routeKey = '', requestContext } = event;
  const { method } = requestContext.http;
  const startedMs = told.now();
  const span = begin(readTrace(headers));
  const { tracestate: _, ...others } = headers;
  const inner = { ...event, headers: { ...others, ...traceHeaders(span.context) } };
  let status = 500;
  let model: string | undefined;
  try {
    const answer = await logWith(idsOf(span), () => handler(inner, context));
    status = answer.statusCode ?? 200;
    model = versionIn(answer);
    const { traceparent } = traceHeaders(span.context);
    return { ...answer, headers: { ...answer.headers, traceparent } };
  } finally {
    told.requestServed?.({ span, routeKey, method, status, model, startedMs });
  }
};

function versionIn({ headers }: HttpAnswer): string | undefined {
  const { 'model-version': version }: { readonly 'model-version'?: unknown } = Object(headers);
  return typeof version === 'string' ? version : undefined;
}

const serveEvent: Serve<SQSEvent, SQSBatchResponse> = (any, begin, told) => async (event, context) => {
  const handler = any as Handler<SQSEvent, SQSBatchResponse>;
  const startedMs = told.now();
  const traced = tracedEvent(event, begin);
  let returned: ReadonlySet<string> | undefined;
  try {
    const answer = await logWith(idsOf(traced.span), () => handler(event, context));
    returned = new Set(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    return answer;
  } finally {
    told.eventReturned?.({ ...traced, returned, startedMs });
  }
};

function tracedEvent({ Records }: SQSEvent, begin: BeginSpan) {
  const records = Records.map((record) => {
    const { identity, trace } = enqueueOf(record);
    const attempt = Number(record.attributes.ApproximateReceiveCount ?? 1);
    return { id: record.messageId, identity, attempt, span: begin(trace) };
  });
  const { context, parentId } = begin();
  // A trace that is not sampled is not linked from other traces either.
  const isSampled = records.some(({ span }) => span.context.isSampled);
  const queue = Records[0]?.eventSourceARN?.split(':').at(-1) ?? '';
  return { queue, records, span: { context: { ...context, isSampled }, parentId } };
}

/** The fields of a log line, named as OpenTelemetry does. */
function idsOf({ context: { traceId, spanId } }: TraceSpan) {
  return { trace_id: traceId, span_id: spanId };
}

function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('hex');
}
