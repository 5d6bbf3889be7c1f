/** Reads OpenTelemetry's environment variables, as far as they are about sending spans by OTLP/HTTP as JSON. */
import { present } from '../contract/present.ts';
import type { TraceContext } from '../contract/trace.ts';
import type { Variables } from '../contract/variables.ts';
import type { Attributes } from './otlp.ts';

/**
 * True if a span is recorded.
 * @param parent undefined where a trace begins
 */
export type Sampler = (traceId: string, parent: TraceContext | undefined) => boolean;

export interface TraceSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The sender's attributes on every span. */
  readonly resource: Attributes;
  /** Time limit of one request to the receiver. */
  readonly timeoutMs: number;
  readonly isSampled: Sampler;
}

const PROTOCOL = 'http/json';
const TIMEOUT_MS = 10_000;
const MAX_TIMEOUT_MS = 60_000;

/** @param service default of OTEL_SERVICE_NAME. @throws for what makes no sense, without a value that may be secret */
export function readTraceSettings(variables: Variables, service: string): TraceSettings {
  const of = (name: string) =>
    variables[`OTEL_EXPORTER_OTLP_TRACES_${name}`] || variables[`OTEL_EXPORTER_OTLP_${name}`];
  const protocol = of('PROTOCOL') ?? PROTOCOL;
  if (protocol !== PROTOCOL)
    throw new Error(`OTEL_EXPORTER_OTLP_PROTOCOL ${JSON.stringify(protocol)}: expected ${PROTOCOL}`);
  const timeoutMs = Number(of('TIMEOUT') ?? TIMEOUT_MS);
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS))
    throw new Error(`OTEL_EXPORTER_OTLP_TIMEOUT: expected 1 to ${MAX_TIMEOUT_MS} ms`);
  return {
    url: urlOf(variables),
    headers: { ...readHeaders(of('HEADERS')), 'content-type': 'application/json' },
    resource: {
      'service.name': service,
      ...readPairs('OTEL_RESOURCE_ATTRIBUTES', variables['OTEL_RESOURCE_ATTRIBUTES']),
      ...(variables['OTEL_SERVICE_NAME'] ? { 'service.name': variables['OTEL_SERVICE_NAME'] } : {}),
    },
    timeoutMs,
    isSampled: samplerOf(variables['OTEL_TRACES_SAMPLER'], variables['OTEL_TRACES_SAMPLER_ARG']),
  };
}

/** The address for traces is used unchanged; the one for all signals gets a suffix. */
function urlOf(variables: Variables): string {
  const own = variables['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'];
  const url = own || `${variables['OTEL_EXPORTER_OTLP_ENDPOINT']?.replace(/\/+$/, '')}/v1/traces`;
  const { protocol, username, password } = URL.parse(url) ?? {};
  if (/^https?:$/.test(protocol ?? '') && !username && !password) return url;
  throw new Error('OTEL_EXPORTER_OTLP_ENDPOINT: expected http(s)://host:port without a user and password');
}

function readHeaders(text: string | undefined): Readonly<Record<string, string>> {
  const headers = readPairs('OTEL_EXPORTER_OTLP_HEADERS', text);
  const isValid = ([name, value]: [string, string]) =>
    /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\t\x20-\x7e]*$/.test(value);
  if (Object.entries(headers).every(isValid)) return headers;
  throw new Error('OTEL_EXPORTER_OTLP_HEADERS: a name or a value is none of a header');
}

/** `name=value,name=value`, with percent signs. */
function readPairs(variable: string, text = ''): Readonly<Record<string, string>> {
  try {
    const parts = text.split(',').filter((part) => part.trim() !== '');
    return Object.fromEntries(
      parts.map((part) => {
        const [, name = '', value = ''] = present(/^\s*([^=\s]+)\s*=(.*)$/s.exec(part), 'header');
        return [name, decodeURIComponent(value.trim())];
      }),
    );
  } catch {
    throw new Error(`${variable}: expected name=value,name=value`);
  }
}

function samplerOf(name = 'parentbased_always_on', argument = '1'): Sampler {
  const [, follows, kind] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  const ratio = kind === 'traceidratio' ? Number(argument) : Number(kind === 'always_on');
  if (kind === undefined || !(ratio >= 0 && ratio <= 1))
    throw new Error(
      'OTEL_TRACES_SAMPLER: expected [parentbased_]always_on, always_off or traceidratio, from 0 to 1',
    );
  // The last 7 bytes of an id are its random part, of which a number holds 52 bits; all who take part decide alike.
  const isChosen = (traceId: string) => Number.parseInt(traceId.slice(-14, -1), 16) < ratio * 2 ** 52;
  return (traceId, parent) => (follows && parent ? parent.isSampled : isChosen(traceId));
}
