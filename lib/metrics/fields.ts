/**
 * Converts histograms to fields of one Redis hash that only grow (HINCRBYFLOAT), and back. Counts stay exact as floats
 * up to 2^53, while squares in whole microseconds would overflow HINCRBY's 64 bits after 92,000 requests of 10 s.
 */
import {
  emptyHistogram,
  type Histogram,
  LOST_CAPTURES,
  type Measurement,
  type SharedTimers,
  TIMERS,
  type TimerName,
} from './timers.ts';

/** `[field, increment]` pairs for HINCRBYFLOAT. */
export function toIncrements(
  histograms: ReadonlyMap<Measurement, Histogram>,
): [field: string, increment: string][] {
  const pairs: [string, string][] = [];
  for (const [name, { count, sum, squares, buckets }] of histograms) {
    for (const [field, number] of Object.entries({ count, sum, squares }))
      pairs.push([`${name}|${field}`, String(number)]);
    for (const [bucket, times] of buckets) pairs.push([`${name}|${bucket}`, String(times)]);
  }
  return pairs;
}

/** The field with the requests and records that were to be captured and are lost. */
export const LOST_FIELD = `${LOST_CAPTURES}|sum`;

/** The field with the time of the job's first measurement, in ms since 1970. */
export const SINCE_FIELD = 'since';

/** The prefix of a field with the time, in ms since 1970, at which an environment last served with a version of the model. */
export const SERVING_FIELD = 'serving|';

/** A version of the model that environments have served with, and when one of them last reported it. */
export interface ServingVersion {
  readonly version: string;
  readonly atMs: number;
}

/** Metrics outlive results: a week after the last measurement they are gone. In ms. */
export const METRICS_TTL_MS = 7 * 24 * 3600 * 1000;
/** An environment that was not used for this long is gone. */
const SERVING_MS = 3_600_000;

/** Those of environments that are not gone, the latest first. @param nowMs ms since 1970 */
export function servingNow(fields: Readonly<Record<string, string>>, nowMs: number): ServingVersion[] {
  return servingFromFields(fields).filter(({ atMs }) => nowMs - atMs <= SERVING_MS);
}

/** @param nowMs ms since 1970 */
export function timersFromFields(fields: Readonly<Record<string, string>>, nowMs: number): SharedTimers {
  const seconds = (nowMs - Number(fields[SINCE_FIELD] ?? nowMs)) / 1000;
  return { histograms: fromFields(fields), seconds };
}

/** The latest first. */
export function servingFromFields(fields: Readonly<Record<string, string>>): ServingVersion[] {
  return Object.entries(fields)
    .filter(([field]) => field.startsWith(SERVING_FIELD))
    .map(([field, at]) => ({ version: field.slice(SERVING_FIELD.length), atMs: Number(at) }))
    .sort((a, b) => b.atMs - a.atMs);
}

/** Every timer of the contract, measured or not. Fields of later versions are ignored. */
export function fromFields(fields: Readonly<Record<string, string>>): Map<TimerName, Histogram> {
  const histograms = new Map<TimerName, Histogram>(TIMERS.map((name) => [name, emptyHistogram()]));
  for (const [field, text] of Object.entries(fields)) {
    const bar = field.lastIndexOf('|');
    const histogram = histograms.get(field.slice(0, bar) as TimerName);
    const part = field.slice(bar + 1);
    const number = Number(text);
    if (!histogram) continue;
    if (part === 'count' || part === 'sum' || part === 'squares') histogram[part] = number;
    else if (/^\d+$/.test(part)) histogram.buckets.set(Number(part), number);
  }
  return histograms;
}
