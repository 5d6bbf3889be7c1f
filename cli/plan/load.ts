/** The load of a service: a rate as one writes it, and its peak. */
import { unexpected } from '../command.ts';

export interface Load {
  readonly perDay: number;
  readonly perSecond: number;
  readonly peakPerSecond: number;
  readonly perMonth: number;
  /** Size of a record as it is sent. */
  readonly recordBytes: number;
  /** Numbers of an answer. */
  readonly numbers: number;
}

export const DAY_SECONDS = 86_400;
export const MONTH_HOURS = 730;
const MONTH_SECONDS = MONTH_HOURS * 3_600;

const SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  second: 1,
  min: 60,
  minute: 60,
  h: 3_600,
  hour: 3_600,
  day: DAY_SECONDS,
  month: MONTH_SECONDS,
};
const MOST_PER_DAY = 1e12;

/** @param text such as 1e9/day or 200/s. @throws bad_config */
export function loadOf(
  text: string,
  { peak, bytes, numbers }: Readonly<Record<'peak' | 'bytes' | 'numbers', number>>,
): Load {
  const [, count = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,6})?(?:e\d{1,2})?)\/([a-z]{1,6})$/.exec(text) ?? [];
  const seconds = Object.hasOwn(SECONDS, unit) ? SECONDS[unit] : undefined;
  const perSecond = seconds === undefined ? Number.NaN : Number(count) / seconds;
  const perDay = perSecond * DAY_SECONDS;
  if (!(perDay > 0 && perDay <= MOST_PER_DAY)) {
    const units = Object.keys(SECONDS).join(', ');
    throw unexpected('rate', `records and a time, up to 1e12/day, such as 1e6/day or 200/s (${units})`, text);
  }
  return {
    perDay,
    perSecond,
    peakPerSecond: perSecond * peak,
    perMonth: perSecond * MONTH_SECONDS,
    recordBytes: bytes,
    numbers,
  };
}
