/**
 * Records spans: one for each request, for each record that is sent to the queue, for each delivery of a record, and for each event
 * of the queue. Their contexts belong to the path (lib/compose/traced.ts).
 */
import type { TraceContext } from '../contract/trace.ts';
import type { Variables } from '../contract/variables.ts';
import type { Fact, FlushLimit, Observer } from '../pipeline/observer.ts';
import { Exporter } from '../trace/exporter.ts';
import type { Attributes, Span } from '../trace/otlp.ts';
import { readTraceSettings, type Sampler } from '../trace/settings.ts';

interface SpansOptions {
  /** Default of OTEL_SERVICE_NAME. */
  readonly service: string;
  /** True where the process is frozen after each answer, so that spans have to be sent before it. */
  readonly isFrozen: boolean;
  /** The clock of the path, in ms. */
  readonly now: () => number;
  readonly warn: (message: string) => void;
}

/** How long an answer waits at most until its spans are sent: a caller's, and that of an event, which has no caller. */
const REQUEST_WAIT_MS = 250;
const EVENT_WAIT_MS = 2_000;
const CLOSE_MS = 2_000;
/** The clock of an environment stands still while it is frozen. */
const MOST_DRIFT_MS = 50;
type Ended = Omit<Span, 'context' | 'parentId' | 'startMs' | 'endMs' | 'links'> &
  Pick<Fact<'messageSent'>, 'span' | 'startedMs'> &
  /** By the clock of the path. */
  Partial<Pick<Span, 'links' | 'endMs'>>;
/** The outcome of a record, with its time by the clock of the path. */
type Outcome = Pick<Span, 'error' | 'endMs'> & { readonly uri: string; readonly model: string | undefined };

export class Spans implements Observer {
  readonly isSampled: Sampler;
  readonly #isFrozen: boolean;
  readonly #exporter: Exporter;
  /** Outcomes of records whose events have not returned, by message id. */
  readonly #outcomes = new Map<string, Outcome>();
  #waitMs = REQUEST_WAIT_MS;
  readonly #now: () => number;
  /** When the clock of the path was 0, in ms since 1970, with fractions. */
  #originMs: number;

  /** @throws for variables that make no sense */
  constructor(variables: Variables, { service, isFrozen, now, warn }: SpansOptions) {
    const settings = readTraceSettings(variables, service);
    this.isSampled = settings.isSampled;
    this.#isFrozen = isFrozen;
    this.#now = now;
    this.#originMs = performance.timeOrigin + performance.now() - now();
    this.#exporter = new Exporter({ ...settings, isPeriodic: !isFrozen, warn });
  }

  requestServed({ span, routeKey, method, status, model, startedMs }: Fact<'requestServed'>): void {
    this.#waitMs = REQUEST_WAIT_MS;
    // The route stands for the path, which may contain a uri.
    const route = routeKey.slice(routeKey.indexOf(' ') + 1);
    const attributes = {
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': status,
      'cluster_serving.model_version': model,
    };
    const error = status >= 500 ? String(status) : undefined;
    this.#add({ name: routeKey, kind: 'server', span, startedMs, attributes, error });
  }

  messageSent({ span, queue, startedMs, error }: Fact<'messageSent'>): void {
    this.#add({
      name: `send ${queue}`,
      kind: 'producer',
      span,
      startedMs,
      attributes: messaging('send', queue),
      error,
    });
  }

  recordsStored({ finished, model }: Fact<'recordsStored'>): void {
    const endMs = this.#now();
    for (const { id, uri, outcome } of finished)
      this.#outcomes.set(id, {
        uri,
        model: model || undefined,
        error: outcome.ok ? undefined : outcome.error.code,
        endMs,
      });
  }

  eventReturned({ span: whole, queue, records, startedMs, returned }: Fact<'eventReturned'>): void {
    this.#waitMs = EVENT_WAIT_MS;
    for (const { id, identity, attempt, span } of records) {
      const { uri, model, error, endMs } = this.#outcomes.get(id) ?? {};
      this.#outcomes.delete(id);
      const attributes = {
        ...messaging('process', queue),
        'messaging.message.id': id,
        'cluster_serving.identity': identity,
        'cluster_serving.attempt': attempt,
        'cluster_serving.uri': uri,
        'cluster_serving.model_version': model,
      };
      const isReturned = returned === undefined || returned.has(id);
      this.#add({
        name: `process ${queue}`,
        kind: 'consumer',
        span,
        startedMs,
        attributes,
        links: [whole.context],
        error: isReturned ? 'returned' : error,
        ...(endMs !== undefined && { endMs }),
      });
    }
    const senders = records.map(({ span: { context, parentId } }): TraceContext => {
      return { ...context, spanId: parentId ?? context.spanId };
    });
    this.#add({
      name: `process batch ${queue}`,
      kind: 'consumer',
      span: whole,
      startedMs,
      attributes: { ...messaging('process', queue), 'messaging.batch.message_count': records.length },
      links: senders.filter(({ isSampled }) => isSampled),
      error: returned === undefined ? 'internal' : undefined,
    });
  }

  flush(limit: FlushLimit): Promise<void> | undefined {
    if (!this.#isFrozen) return undefined;
    return this.#exporter.sendWithin(Math.max(0, Math.min(this.#waitMs, limit.leftMs())));
  }

  /** Sends what is left. */
  close(): Promise<void> {
    return this.#exporter.close(CLOSE_MS);
  }

  #add({ span: { context, parentId }, startedMs, links = [], endMs = this.#now(), ...about }: Ended): void {
    if (!context.isSampled) return;
    const originMs = this.#origin();
    const times = { startMs: originMs + startedMs, endMs: originMs + Math.max(startedMs, endMs) };
    this.#exporter.add({ ...about, ...times, context, parentId, links });
  }

  #origin(): number {
    const [nowMs, wallMs] = [this.#now(), Date.now()];
    if (Math.abs(wallMs - nowMs - this.#originMs) > MOST_DRIFT_MS) this.#originMs = wallMs - nowMs;
    return this.#originMs;
  }
}

function messaging(operation: 'send' | 'process', queue: string): Attributes {
  return {
    'messaging.system': 'aws_sqs',
    'messaging.operation.type': operation,
    'messaging.destination.name': queue,
  };
}
