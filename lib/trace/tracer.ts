/**
 * Traces requests and records: one span for each request, for each record that is sent to the queue, for each delivery of
 * a record, and for each event of the queue. It wraps handlers, the queue's sender and the sink of results, which know
 * nothing of it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { APIGatewayProxyEventV2, Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { enqueueOf, MessageAttributes, traceAttributes } from '../codecs/attributes.ts';
import type { logWith } from '../contract/log.ts';
import type { readTrace, TraceContext, traceHeaders } from '../contract/trace.ts';
import type { Variables } from '../contract/variables.ts';
import type { Sink } from '../pipeline/serve.ts';
import type { Sender } from '../pipeline/submit.ts';
import { Exporter } from './exporter.ts';
import type { Attributes, Span } from './otlp.ts';
import { readTraceSettings, type Sampler } from './settings.ts';

/**
 * What functions have loaded anyway. It is handed over and not imported, because the bundler makes a file of what two
 * files share, which functions would read at each start, also where nothing is traced.
 */
export interface Tools {
  readonly enqueueOf: typeof enqueueOf;
  readonly traceAttributes: typeof traceAttributes;
  readonly logWith: typeof logWith;
  readonly readTrace: typeof readTrace;
  readonly traceHeaders: typeof traceHeaders;
}

export interface TracerOptions extends Tools {
  /** Default of OTEL_SERVICE_NAME. */
  readonly service: string;
  /** True where the process is frozen after each answer, so that spans have to be sent before it. */
  readonly isFrozen: boolean;
  readonly warn: (message: string) => void;
}

/** How long an answer waits at most until its spans are sent: a caller's, and that of an event, which has no caller. */
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
type Outcomes = Map<string, Pick<Span, 'error' | 'endMs'> & { readonly uri: string }>;

export type Handler<E, R> = (event: E, context: Context) => Promise<R>;
type HttpEvent = Pick<APIGatewayProxyEventV2, 'requestContext'> & Partial<APIGatewayProxyEventV2>;
type HttpAnswer = { readonly statusCode?: number; readonly headers?: object };

export class Tracer {
  readonly #isFrozen: boolean;
  readonly #tools: Tools;
  readonly #isSampled: Sampler;
  readonly #exporter: Exporter;
  readonly #outcomes = new AsyncLocalStorage<Outcomes>();
  #originMs = performance.timeOrigin;

  /** @throws for variables that make no sense */
  constructor(variables: Variables, { service, isFrozen, warn, ...tools }: TracerOptions) {
    const settings = readTraceSettings(variables, service);
    this.#isFrozen = isFrozen;
    this.#tools = tools;
    this.#isSampled = settings.isSampled;
    this.#exporter = new Exporter({ ...settings, isPeriodic: !isFrozen, warn });
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

  #http(handler: Handler<HttpEvent, HttpAnswer>): typeof handler {
    return async (event, context) => {
      const { headers = {}, routeKey = '', requestContext } = event;
      // The route stands for the path, which may contain a uri.
      const attributes = {
        'http.request.method': requestContext.http.method,
        'http.route': routeKey.slice(routeKey.indexOf(' ') + 1),
      };
      const what = { name: routeKey, attributes };
      const span = this.#begin({ ...what, kind: 'server' }, this.#tools.readTrace(headers));
      const { tracestate: _, ...others } = headers;
      const inner = { ...event, headers: { ...others, ...this.#tools.traceHeaders(span.context) } };
      let status = 500;
      try {
        const answer = await this.#tools.logWith(idsOf(span), () => handler(inner, context));
        status = answer.statusCode ?? 200;
        const { traceparent } = this.#tools.traceHeaders(span.context);
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
      // A trace that is not sampled is not linked from other traces either.
      const isSampled = spans.some((span) => span.context.isSampled);
      const whole = { ...batch, context: { ...batch.context, isSampled } };
      const outcomes: Outcomes = new Map();
      let failed = new Set(Records.map(({ messageId }) => messageId));
      let error: string | undefined = 'internal';
      try {
        const answer = await this.#tools.logWith(idsOf(whole), () =>
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
    const { identity, trace } = this.#tools.enqueueOf(record);
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
        const parent = this.#tools.readTrace(headersOf(attributes));
        // A record that is at the limit of its size has no room for one. Its trace begins when it is delivered.
        if (!parent) return sender.send(body, attributes, groupId);
        const what = { name: `send ${queue}`, attributes: messaging('send', queue) };
        const span = this.#begin({ ...what, kind: 'producer' }, parent);
        let error: string | undefined = 'queue_unavailable';
        try {
          await sender.send(body, { ...attributes, ...this.#tools.traceAttributes(span.context) }, groupId);
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
    const traceId = parent?.traceId ?? randomHex(16);
    const isSampled = this.#isSampled(traceId, parent);
    const state = parent?.state === undefined ? {} : { state: parent.state };
    const context = { traceId, spanId: randomHex(8), isSampled, ...state };
    return { ...beginning, context, parentId: parent?.spanId, startMs: this.#now() };
  }

  #end(span: Begun, { attributes, links = [], error, endMs = this.#now() }: Ending): void {
    if (!span.context.isSampled) return;
    const all = { ...span.attributes, ...attributes };
    this.#exporter.add({ ...span, attributes: all, links, error, endMs: Math.max(span.startMs, endMs) });
  }

  async #sent(limitMs: number, context: Context): Promise<void> {
    if (!this.#isFrozen) return;
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

function headersOf({ traceparent, tracestate }: MessageAttributes) {
  return { traceparent: traceparent?.StringValue, tracestate: tracestate?.StringValue };
}

function randomHex(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('hex');
}

/** The fields of a log line, named as OpenTelemetry does. */
function idsOf({ context: { traceId, spanId } }: Begun) {
  return { trace_id: traceId, span_id: spanId };
}
