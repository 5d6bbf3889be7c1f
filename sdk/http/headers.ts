/** A caller's statements about a record or a prediction, and the headers and parameters that carry them. */
import { assertCanaryKey } from '../../lib/contract/enqueue.ts';

export interface Traced {
  /** The W3C trace that it belongs to, as the header `traceparent` has it. What is malformed is ignored. */
  readonly traceparent?: string | undefined;
  /** Data of other tracing systems, in the form of the header `tracestate`. */
  readonly tracestate?: string | undefined;
}

export interface Keyed {
  /**
   * By its value a canary takes a record or not, while there is one: such as the id of a user, in 1 to 128 letters, digits and
   * punctuation of ASCII. Default: the tenant, else the uri; of a prediction, each request by itself.
   */
  readonly canaryKey?: string | undefined;
  /** The name of a further model of the job, which is to run it. Default: the job's own. */
  readonly model?: string | undefined;
}

export type TextHeaders = Readonly<Record<string, string>>;

/** The service passes over a malformed trace; here is only kept out what no header can have. @throws bad_request for the key */
export function headersOf({ canaryKey, traceparent = '', tracestate = '' }: Traced & Keyed): TextHeaders {
  const key = canaryKey === undefined ? undefined : { 'canary-key': assertCanaryKey(canaryKey) };
  if (!/^[\w-]{55,512}$/.test(traceparent)) return { ...key };
  return { ...key, traceparent, ...(/^[ -~]{1,512}$/.test(tracestate) && { tracestate }) };
}

/** The model that a request asks, and its headers. */
export interface Asked {
  readonly model: string | undefined;
  readonly headers: TextHeaders;
}

/** Begins with its question mark; empty for values that are all undefined. */
export function queryOf(values: Readonly<Record<string, string | number | undefined>>): string {
  const parts = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : `${name}=${encodeURIComponent(value)}`,
  );
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}
