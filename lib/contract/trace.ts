/**
 * The trace context of the W3C (level 1), which travels with a request and a record: the trace that it belongs to, and the
 * span of it that comes before. Anybody may send one, so what is malformed is ignored and never an error.
 */

export interface TraceContext {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string;
  /** 16 hexadecimal digits in lower case. */
  readonly spanId: string;
  /** True if the sender records the trace. */
  readonly isSampled: boolean;
  /** Trace data of other systems. */
  readonly state?: string;
}

/** A span that has begun: what is below it gets its context. */
export interface TraceSpan {
  readonly context: TraceContext;
  /** The span above it; undefined where a trace begins. */
  readonly parentId: string | undefined;
}

/** As headers of HTTP, attributes of a message and fields of a dead letter have it. */
export interface TraceHeaders {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}

const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MEMBER =
  /^([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MAX_MEMBERS = 32;
/** The length that the standard asks everyone to forward at least, and that we forward at most. */
const MAX_STATE_LENGTH = 512;

/** @returns undefined when there is no valid `traceparent`; a `tracestate` that is invalid or too long is left out */
export function readTrace({ traceparent, tracestate }: TraceHeaders): TraceContext | undefined {
  if (typeof traceparent !== 'string') return undefined;
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(withoutSpace(traceparent)) ?? [];
  if (!traceId || !spanId || !flags || (version === '00' && more !== undefined)) return undefined;
  const state = typeof tracestate === 'string' ? readState(tracestate) : undefined;
  const isSampled = (Number.parseInt(flags, 16) & 1) === 1;
  return { traceId, spanId, isSampled, ...(state ? { state } : {}) };
}

function readState(text: string): string | undefined {
  if (text.length > 4 * MAX_STATE_LENGTH) return undefined;
  const members = text.split(',').map(withoutSpace).filter(Boolean);
  const keys = new Set(members.map((member) => member.split('=', 1)[0]));
  const isValid = keys.size === members.length && members.every((member) => MEMBER.test(member));
  const state = members.join();
  return isValid && members.length <= MAX_MEMBERS && state.length <= MAX_STATE_LENGTH ? state : undefined;
}

function withoutSpace(text: string): string {
  return text.replace(/^[ \t]+/, '').replace(/[ \t]+$/, '');
}

export function traceHeaders(trace: TraceContext | undefined): Readonly<Record<string, string>> {
  if (!trace) return {};
  const { traceId, spanId, isSampled, state } = trace;
  const traceparent = `00-${traceId}-${spanId}-0${isSampled ? 1 : 0}`;
  return state === undefined ? { traceparent } : { traceparent, tracestate: state };
}
