/**
 * Writes figures as Prometheus (text format 0.0.4) and OpenMetrics 1.0 read them, and decides by `Accept` which of them a client
 * gets. Only a client that names one of the two gets it: everybody else gets the JSON of the contract.
 */
import type { Distribution, Family, Labels } from './families.ts';

export type Format = 'prometheus' | 'openmetrics';

const FORMATS: Readonly<Record<string, Format | 'json'>> = {
  'application/openmetrics-text': 'openmetrics',
  'text/plain': 'prometheus',
  'application/json': 'json',
};

export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

/** @returns undefined for JSON. Of types with equal weights the first counts. */
export function formatFor(accept = ''): Format | undefined {
  let best: { readonly format: Format | 'json'; readonly weight: number } | undefined;
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const format = Object.hasOwn(FORMATS, type) ? FORMATS[type] : undefined;
    const weight = Number(parameters.find((text) => text.startsWith('q='))?.slice(2) ?? 1);
    if (format !== undefined && weight > (best?.weight ?? 0)) best = { format, weight };
  }
  return best === undefined || best.format === 'json' ? undefined : best.format;
}

export function exposition(families: readonly Family[], format: Format): string {
  const lines = families.filter(({ values }) => values.length > 0).flatMap((one) => familyLines(one, format));
  return `${[...lines, ...(format === 'openmetrics' ? ['# EOF'] : [])].join('\n')}\n`;
}

function familyLines(family: Family, format: Format): string[] {
  const { name, type, help, unit } = family;
  const isOpen = format === 'openmetrics';
  const suffix = type === 'counter' ? '_total' : type === 'info' ? '_info' : '';
  // Prometheus describes a sample's whole name, and knows no infos.
  const described = isOpen ? name : name + suffix;
  const head = [
    `# HELP ${described} ${escaped(help, isOpen)}`,
    `# TYPE ${described} ${type === 'info' && !isOpen ? 'gauge' : type}`,
    ...(isOpen && unit !== undefined ? [`# UNIT ${name} ${unit}`] : []),
  ];
  if (family.type === 'histogram')
    return [...head, ...family.values.flatMap((one) => bucketLines(name, one))];
  return [...head, ...family.values.map(({ labels, value }) => line(name + suffix, labels, value))];
}

function bucketLines(name: string, { labels, count, sum, buckets }: Distribution): string[] {
  const bounded = buckets.map(([bound, upTo]) =>
    line(`${name}_bucket`, { ...labels, le: boundText(bound) }, upTo),
  );
  const all = line(`${name}_bucket`, { ...labels, le: '+Inf' }, count);
  return [...bounded, all, line(`${name}_sum`, labels, sum), line(`${name}_count`, labels, count)];
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text, true)}"`);
  return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`;
}

/** OpenMetrics writes bounds as floats, which Prometheus reads too. */
function boundText(bound: number): string {
  return Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

function escaped(text: string, withQuotes: boolean): string {
  const safe = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return withQuotes ? safe.replaceAll('"', '\\"') : safe;
}
