/**
 * Dates as ISO 8601, with what Python can have and JavaScript cannot: microseconds, and a time zone or none. A date that
 * is passed on unchanged keeps the text that it came as.
 */

const ISO =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{3})(?:\d{3})?)?(Z|([+-])(\d\d):(\d\d)(?::(\d\d)(?:\.\d{6})?)?)?$/;
const FIRST_YEAR = Date.parse('0001-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

const texts = new WeakMap<Date, { readonly text: string; readonly time: number }>();

/** @returns undefined when the text is not a date. One without a time zone is read as UTC. */
export function dateOf(text: string): Date | undefined {
  const match = ISO.exec(text);
  if (!match) return undefined;
  const [, seconds = '', ms = '000', , sign, hours = '0', minutes = '0', rest = '0'] = match;
  const local = new Date(`${seconds}.${ms}Z`);
  // A day that does not exist would become the next one.
  if (Number.isNaN(local.getTime()) || !local.toISOString().startsWith(seconds)) return undefined;
  if (seconds < '0001' || Number(hours) > 23 || Number(minutes) > 59 || Number(rest) > 59) return undefined;
  const offset = (Number(hours) * 3600 + Number(minutes) * 60 + Number(rest)) * 1000;
  const date = new Date(local.getTime() - (sign === '-' ? -offset : offset));
  texts.set(date, { text, time: date.getTime() });
  return date;
}

/** @returns undefined for what Python's datetime cannot be */
export function isoOf(date: Date): string | undefined {
  const time = date.getTime();
  const known = texts.get(date);
  if (known && known.time === time) return known.text;
  return time >= FIRST_YEAR && time <= LAST_MS ? date.toISOString() : undefined;
}

export function isDate(value: unknown): value is Date {
  return value instanceof Date;
}
