/** Writes spans as OTLP does in JSON: ids in hexadecimal, times in nanoseconds as text, kinds and codes as numbers. */
import type { TraceContext } from '../contract/trace.ts';

export type Attributes = Readonly<Record<string, string | number | undefined>>;

export const KINDS = { server: 2, producer: 4, consumer: 5 } as const;

export interface Span {
  readonly context: TraceContext;
  readonly parentId: string | undefined;
  readonly name: string;
  readonly kind: keyof typeof KINDS;
  /** In ms since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly links: readonly TraceContext[];
  /** The code of its failure; undefined where there is none. */
  readonly error: string | undefined;
}

/** OpenTelemetry's own default. A batch may have 10,000 records. */
const MAX_LINKS = 128;
const MAX_TEXT = 1_024;
const STATUS_ERROR = 2;

/** The body of one request. */
export function otlpBody(resource: Attributes, spans: readonly Span[]): string {
  const scopeSpans = [{ scope: { name: 'cluster-serving' }, spans: spans.map(spanJson) }];
  return JSON.stringify({ resourceSpans: [{ resource: { attributes: keyValues(resource) }, scopeSpans }] });
}

function spanJson({ context, parentId, name, kind, startMs, endMs, attributes, links, error }: Span) {
  return {
    ...contextJson(context),
    parentSpanId: parentId,
    name: name.slice(0, MAX_TEXT),
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: keyValues({ ...attributes, 'error.type': error }),
    links: links.slice(0, MAX_LINKS).map(contextJson),
    droppedLinksCount: Math.max(0, links.length - MAX_LINKS),
    status: error === undefined ? {} : { code: STATUS_ERROR, message: error },
  };
}

function contextJson({ traceId, spanId, isSampled, state }: TraceContext) {
  return { traceId, spanId, traceState: state, flags: isSampled ? 1 : 0 };
}

/** A double holds microseconds since 1970 exactly, and nanoseconds not. */
function nanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}

function keyValues(attributes: Attributes) {
  const known = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return known.map(([key, value]) => {
    const text = String(value).slice(0, MAX_TEXT).toWellFormed();
    return { key, value: typeof value === 'number' ? { intValue: text } : { stringValue: text } };
  });
}
