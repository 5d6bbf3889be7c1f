/** The text of a plan. */
import type { PlanDocument } from './document.ts';

export function reportText(plan: PlanDocument): string {
  const { rate, load, stack, calls, limits, beyond, bill, notes, prices } = plan;
  const whole = (n: number) => Math.round(n).toLocaleString('en-US');
  const redis = 'redisNodeType' in stack ? `${stack.redisNodes} × ${stack.redisNodeType}` : stack.redis;
  const head = [
    `rate   ${rate}: ${whole(load.perDay)} records a day, ${amount(load.perSecond)} a second, ${amount(load.peakPerSecond)} at the peak; ${whole(load.recordBytes)} bytes, answers of ${whole(load.numbers)} numbers`,
    `stack  stage ${stack.stage}, ${stack.redis === 'dynamodb' ? 'results' : 'redis'}=${stack.redis}${'redisNodeType' in stack ? ` (${redis})` : ''}, ${calls.memoryMB} MB`,
    `calls  predict ${amount(calls.predictMs)} ms, an event of ${calls.records} ${amount(calls.batchMs)} ms (${calls.from})`,
  ];
  const first = limits[0];
  const verdict = [
    first?.breaksAt == null
      ? 'No limit is known.'
      : `First: ${first.name}, at ${rateText(first.breaksAt)} with these settings.`,
    beyond.length === 0
      ? 'Settings can carry the rate.'
      : `Beyond every setting: ${beyond.join('; ')}. The last column says what is left.`,
  ];
  const rows = limits.map((limit) => [
    limit.name,
    limit.way === 'requests' ? 'predict' : limit.way,
    `${amount(limit.needs)} ${limit.unit}`,
    limit.has === null ? '?' : amount(limit.has),
    limit.breaksAt === null ? '?' : rateText(limit.breaksAt),
    limit.most === null ? '?' : amount(limit.most),
    limit.mostAt === null ? '?' : rateText(limit.mostAt),
    limit.change,
  ]);
  const heads = ['limit', 'way', 'needs', 'has', 'breaks at', 'most', 'breaks at', 'what to change'];
  const dollars = (value: number | null) =>
    value === null
      ? '?'
      : value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const parts = bill.parts
    .filter(({ requests, queue }) => requests !== 0 || queue !== 0)
    .map(({ what, requests, queue }) => [what, dollars(requests), dollars(queue)]);
  const sum = [
    bill.isWhole ? 'together' : 'together, without ?',
    dollars(bill.together.requests),
    dollars(bill.together.queue),
  ];
  return [
    ...head,
    '',
    ...verdict,
    '',
    ...aligned([heads, ...rows], new Set([2, 3, 4, 5, 6])),
    '',
    ...aligned([['dollars a month', 'POST /predict', 'the queue'], ...parts, sum], new Set([1, 2])),
    `(${prices.region}, example prices of ${prices.asOf}: look yours up)`,
    '',
    ...notes.map((note) => `note: ${note}`),
  ].join('\n');
}

/** @param right columns of numbers */
function aligned(rows: readonly (readonly string[])[], right: ReadonlySet<number>): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, i) => (right.has(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

/** Three digits, or the whole number. */
function amount(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));
}

/** Rounded down, so that no rate is promised that does not fit. */
export function rateText(perDay: number): string {
  const MILLION = 1e6;
  if (perDay < MILLION) return `${Math.floor(perDay).toLocaleString('en-US')}/day`;
  return `${(Math.floor(perDay / (MILLION / 100)) / 100).toLocaleString('en-US')} M/day`;
}
