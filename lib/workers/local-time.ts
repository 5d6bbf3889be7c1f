/** A time as the loggers of Python write it, in local time: `2026-03-08 09:05:00,042`. */
export function localTime(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  const time = [two(date.getHours()), two(date.getMinutes()), two(date.getSeconds())].join(':');
  return `${day} ${time},${String(date.getMilliseconds()).padStart(3, '0')}`;
}
