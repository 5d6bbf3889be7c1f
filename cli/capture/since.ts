/** Reads `--since`: a time, or how long ago. */
import { unexpected } from '../command.ts';

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @param now in ms since 1970. @returns ms since 1970. @throws bad_config */
export function sinceOf(text: string, now: number): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const ms = UNITS[unit];
  if (count !== undefined && ms !== undefined) return now - Number(count) * ms;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw unexpected('since', 'a time such as 24h, 30m, 7d or 2026-11-28T08:00Z', text);
}
