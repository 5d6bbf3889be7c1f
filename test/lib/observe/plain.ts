/**
 * Reports of observers without the parts that differ from run to run: times, random ids, addresses and versions become
 * "#".
 */
import type { ReceivedSpan } from '../../support/otlp.ts';

const ANY = '#';

type Json = Readonly<Record<string, unknown>>;

interface Directive {
  readonly Metrics: readonly { readonly Name: string; readonly Unit: string }[];
}

/** Lines of JSON on stdout: CloudWatch metrics and log lines. */
export function plainLine(line: Json): Json {
  const { _aws: aws, stack, ...fields } = line;
  const out = Object.entries(fields).map(([key, value]) => [key, isVarying(key) ? ANY : plainText(value)]);
  const [directive] =
    (aws as { CloudWatchMetrics: readonly Directive[] } | undefined)?.CloudWatchMetrics ?? [];
  const units = directive?.Metrics.map(({ Name, Unit }) => [Name, Unit]);
  return {
    ...Object.fromEntries(out),
    ...(directive && { metrics: { ...directive, Metrics: Object.fromEntries(units ?? []) } }),
    ...(stack === undefined ? {} : { stack: typeof stack }),
  };
}

function isVarying(key: string): boolean {
  return (
    /^(timestamp|span_id|trace_id|messageId|version|model_version)$/.test(key) ||
    /Time$|Age$|_per_second$|_time$|^util$|^ideal_maxload$/.test(key)
  );
}

/** A text without addresses. */
function plainText(value: unknown): unknown {
  return typeof value === 'string' ? value.replaceAll(/127\.0\.0\.1:\d+|[0-9a-f]{16,64}/g, ANY) : value;
}

/** Returns what stays the same between runs of each span, in an order that also stays the same. */
export function plainSpans(all: readonly ReceivedSpan[], service: string): string[] {
  const spans = all.filter(({ resource }) => resource['service.name'] === service);
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  return spans
    .map(({ name, kind, parentSpanId, traceState, links, status, attributes }) => {
      const parent = parentSpanId && (byId.get(parentSpanId)?.name ?? 'client');
      const {
        'messaging.message.id': id,
        'cluster_serving.identity': identity,
        'cluster_serving.model_version': version,
        ...others
      } = attributes;
      const linked = links.map(({ spanId }) => byId.get(spanId)?.name ?? 'client').sort();
      const ids = [id, identity, version].map((one) => typeof one);
      return JSON.stringify({ name, kind, parent, traceState, linked, status, ids, ...others });
    })
    .sort();
}

/** Prometheus' text: of durations only how many there were. */
export function plainMetrics(text: string): string[] {
  const varies = /^process_|^cluster_serving_(worker_busy|queue_age|metrics_read)|_seconds_sum/;
  return text
    .split('\n')
    .filter((line) => !/^\w+_seconds_bucket/.test(line) || line.includes('le="+Inf"'))
    .map((line) => (varies.test(line) ? line.replace(/ [^ ]+$/, ` ${ANY}`) : line))
    .map((line) => line.replace(/^(cluster_serving_model_info.*version=")[^"]*/, `$1${ANY}`));
}

/** How often each timer was measured. What reading them took is delivered with the next request after a second. */
export function plainTimers(body: string): unknown[] {
  const timers = JSON.parse(body) as readonly { readonly name: string; readonly count: number }[];
  return timers.map(({ name, count }) => [name, name.endsWith('.metrics') ? ANY : count]);
}

/** Any answer as JSON: times, versions and what is computed of them are left out. */
export function plainJson(value: unknown, key = ''): unknown {
  // A step ends every ten seconds, wherever the sequence is then.
  if (key === 'steps') return ANY;
  if (Array.isArray(value)) return value.map((one) => plainJson(one, key));
  if (typeof value === 'object' && value !== null) {
    const varies = key === 'latency' || key === 'sys_predict';
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [name, varies ? ANY : plainJson(one, name)]),
    );
  }
  if (
    /^(ns|batchMs|last_inference|version|model|since|endedAt|finishedAt|identity)$/.test(key) ||
    isVarying(key)
  )
    return ANY;
  return plainText(value);
}

/** A page: no time, rate or curve. */
export function plainPage(html: string): string[] {
  const varies = /<dt>(Uptime|Util|\w+ R[qp]\/S)<\/dt><dd>[^<]*/g;
  return html
    .replaceAll(varies, `<dt>$1</dt><dd>${ANY}`)
    .replaceAll(/points="[^"]*"|<text[^<]*/g, ANY)
    .replaceAll('</div>', '</div>\n')
    .split('\n');
}
