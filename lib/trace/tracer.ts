/**
 * Traces requests and records: one span for each request, for each record that is sent to the queue, for each delivery of
 * a record, and for each event of the queue. It wraps handlers, the queue's sender and the sink of results, which know
 * nothing of it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import type { APIGatewayProxyEventV2, Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { enqueueOf, type MessageAttributes, traceAttributes } from '../codecs/attributes.ts';
import { logWith } from '../contract/log.ts';
import { readTrace, type TraceContext, traceHeaders } from '../contract/trace.ts';
import type { Sink } from '../pipeline/serve.ts';
import type { Sender } from '../pipeline/submit.ts';
import { Exporter } from './exporter.ts';
import type { Attributes, Span } from './otlp.ts';
import type { TraceSettings } from './settings.ts';

export interface TracerOptions extends TraceSettings {
  /** True where the process is frozen after each answer, so that spans have to be sent before it. */
  readonly isFrozen: boolean;
  readonly warn: (message: string) => void;
}

/** How long an answer waits at most until its spans are sent: a caller's, and that of an event, for which nobody waits. */
const REQUEST_WAIT_MS = 250;
const EVENT_WAIT_MS = 2_000;
/** Of the function's time, for its answer. */
const ANSWER_MS = 100;
const CLOSE_MS = 2_000;
/** The clock of an environment stands still while it is frozen. */
const MOST_DRIFT_MS = 50;

type Begun = Pick<Span, 'context' | 'parentId' | 'name' | 'kind' | 'startMs' | 'attributes'>;
type Beginning = Pick<Span, 'name' | 'kind' | 'attributes'>;

interface Ending {
  readonly attributes?: Attributes;
  readonly links?: readonly TraceContext[];
  readonly error?: string | undefined;
  /** Default now. */
  readonly endMs?: number | undefined;
}

/** What became of a record of the running event, by the id of its message. */
type Outcomes = Map<
  string,
  { readonly uri: string; readonly error: string | undefined; readonly endMs: number }
>;

export type Handler<E, R> = (event: E, context: Context) => Promise<R>;
type HttpAnswer = { readonly statusCode?: number; readonly headers?: object };

export class Tracer {
  readonly #options: TracerOptions;
  readonly #exporter: Exporter;
  readonly #outcomes = new AsyncLocalStorage<Outcomes>();
  #originMs = performance.timeOrigin;

  constructor(options: TracerOptions) {
    this.#options = options;
    this.#exporter = new Exporter({ ...options, isPeriodic: !options.isFrozen });
  }

  /** Sends what is left. */
  close(): Promise<void> {
    return this.#exporter.close(CLOSE_MS);
  }

  /** @param kind of the handler's events. Its requests carry the context of their span, and its answers too. */
  handler<E, R>(kind: 'http' | 'sqs', handler: Handler<E, R>): Handler<E, R> {
    // The kind says what the events are, and the platform what their answers are.
    if (kind === 'http') return this.#http(handler as never) as unknown as Handler<E, R>;
    return this.#sqs(handler as never) as unknown as Handler<E, R>;
  }

  #http(handler: Handler<APIGatewayProxyEventV2, HttpAnswer>): typeof handler {
    return async (event, context) => {
      const { headers, routeKey, rawPath, requestContext } = event;
      const attributes = {
        'http.request.method': requestContext.http.method,
        'http.route': routeKey.slice(routeKey.indexOf(' ') + 1),
        'url.path': rawPath,
        'url.scheme': headers['x-forwarded-proto'] ?? 'https',
      };
      const span = this.#begin({ name: routeKey, kind: 'server', attributes }, readTrace(headers));
      const { tracestate: _, ...others } = headers;
      const inner = { ...event, headers: { ...others, ...traceHeaders(span.context) } };
      let status = 500;
      try {
        const answer = await logWith(idsOf(span), () => handler(inner, context));
        status = answer.statusCode ?? 200;
        const { traceparent } = traceHeaders(span.context);
        return { ...answer, headers: { ...answer.headers, traceparent } };
      } finally {
        const error = status >= 500 ? String(status) : undefined;
        this.#end(span, { error, attributes: { 'http.response.status_code': status } });
        await this.#sent(REQUEST_WAIT_MS, context);
      }
    };
  }

  #sqs(handler: Handler<SQSEvent, SQSBatchResponse>): typeof handler {
    return async (event, context) => {
      const { Records } = event;
      const queue = Records[0]?.eventSourceARN?.split(':').at(-1) ?? '';
      const attributes = { ...messaging('process', queue), 'messaging.batch.message_count': Records.length };
      const batch = this.#begin({ name: `process batch ${queue}`, kind: 'consumer', attributes });
      const spans = Records.map((record) => this.#beginRecord(record, queue));
      // A trace that nobody records leaves no mark, in other traces either.
      const isSampled = spans.some((span) => span.context.isSampled);
      const whole = { ...batch, context: { ...batch.context, isSampled } };
      const outcomes: Outcomes = new Map();
      let failed = new Set(Records.map(({ messageId }) => messageId));
      let error: string | undefined = 'internal';
      try {
        const answer = await logWith(idsOf(whole), () =>
          this.#outcomes.run(outcomes, () => handler(event, context)),
        );
        failed = new Set(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
        error = undefined;
        return answer;
      } finally {
        for (const [i, { messageId }] of Records.entries()) {
          const { uri, error: code, endMs } = outcomes.get(messageId) ?? {};
          const ended = { attributes: { 'cluster_serving.uri': uri }, links: [whole.context], endMs };
          this.#end(spans[i] as Begun, { ...ended, error: failed.has(messageId) ? 'returned' : code });
        }
        const links = spans.map(({ context: own, parentId }) => ({ ...own, spanId: parentId ?? own.spanId }));
        this.#end(whole, { error, links: links.filter((link) => link.isSampled) });
        await this.#sent(EVENT_WAIT_MS, context);
      }
    };
  }

  #beginRecord(record: SQSRecord, queue: string): Begun {
    const { identity, trace } = enqueueOf(record);
    const attributes = {
      ...messaging('process', queue),
      'messaging.message.id': record.messageId,
      'cluster_serving.identity': identity,
      'cluster_serving.attempt': Number(record.attributes.ApproximateReceiveCount ?? 1),
    };
    return this.#begin({ name: `process ${queue}`, kind: 'consumer', attributes }, trace);
  }

  /** Its messages carry the context of their span. */
  sender(sender: Sender, queueUrl: string): Sender {
    const queue = queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
    return {
      send: async (body, attributes, groupId) => {
        const what = {
          name: `send ${queue}`,
          kind: 'producer',
          attributes: messaging('send', queue),
        } as const;
        const span = this.#begin(what, traceOf(attributes));
        let error: string | undefined = 'queue_unavailable';
        try {
          await sender.send(body, { ...attributes, ...traceAttributes(span.context) }, groupId);
          error = undefined;
        } finally {
          this.#end(span, { error });
        }
      },
    };
  }

  /** Learns what became of the records of the running event. */
  sink(sink: Sink): Sink {
    return {
      save: async (finished, model) => {
        const unsaved = await sink.save(finished, model);
        const endMs = this.#now();
        for (const { id, uri, outcome } of finished) {
          const error = outcome.ok ? undefined : outcome.error.code;
          this.#outcomes.getStore()?.set(id, { uri, error, endMs });
        }
        return unsaved;
      },
    };
  }

  #begin(beginning: Beginning, parent?: TraceContext): Begun {
    const traceId = parent?.traceId ?? randomBytes(16).toString('hex');
    const isSampled = this.#options.isSampled(traceId, parent);
    const state = parent?.state === undefined ? {} : { state: parent.state };
    const context = { traceId, spanId: randomBytes(8).toString('hex'), isSampled, ...state };
    return { ...beginning, context, parentId: parent?.spanId, startMs: this.#now() };
  }

  #end(span: Begun, { attributes, links = [], error, endMs = this.#now() }: Ending): void {
    if (!span.context.isSampled) return;
    const all = { ...span.attributes, ...attributes };
    this.#exporter.add({ ...span, attributes: all, links, error, endMs: Math.max(span.startMs, endMs) });
  }

  async #sent(limitMs: number, context: Context): Promise<void> {
    if (!this.#options.isFrozen) return;
    const leftMs = context.getRemainingTimeInMillis() - ANSWER_MS;
    await this.#exporter.sendWithin(Math.max(0, Math.min(limitMs, leftMs)));
  }

  /** In ms since 1970, with fractions. */
  #now(): number {
    const ms = this.#originMs + performance.now();
    const wallMs = Date.now();
    if (Math.abs(wallMs - ms) <= MOST_DRIFT_MS) return ms;
    this.#originMs = wallMs - performance.now();
    return wallMs;
  }
}

function messaging(operation: 'send' | 'process', queue: string): Attributes {
  return {
    'messaging.system': 'aws_sqs',
    'messaging.operation.type': operation,
    'messaging.destination.name': queue,
  };
}

function traceOf({ traceparent, tracestate }: MessageAttributes): TraceContext | undefined {
  return readTrace({ traceparent: traceparent?.StringValue, tracestate: tracestate?.StringValue });
}

/** The fields of a log line, named as OpenTelemetry does. */
function idsOf({ context: { traceId, spanId } }: Begun) {
  return { trace_id: traceId, span_id: spanId };
}
