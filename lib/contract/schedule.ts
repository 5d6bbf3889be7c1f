/** When a record is to run, as its sender says it. */
import { badRequest } from './errors.ts';
import type { Unchecked } from './notice.ts';

export interface Schedule {
  /** Seconds from the enqueue after which the record is not run any more. Default: `queue.recordTtlSeconds` alone counts. */
  readonly expiresAfter?: number | undefined;
  /** Seconds from the enqueue before which no function gets it. Default 0. */
  readonly delaySeconds?: number | undefined;
}

/** SQS keeps no message longer: 14 days. */
export const MOST_EXPIRES_AFTER = 1_209_600;
/** By SQS. */
export const MOST_DELAY_SECONDS = 900;

export function isExpiresAfter(value: unknown): value is number {
  return isWhole(value, 1, MOST_EXPIRES_AFTER);
}

/** @param ttlSeconds the job's `queue.recordTtlSeconds`; 0 where there is none, or the caller does not know. @throws bad_request */
export function assertSchedule(
  { expiresAfter, delaySeconds }: Unchecked<Schedule>,
  ttlSeconds = 0,
): Schedule {
  if (expiresAfter !== undefined && !isExpiresAfter(expiresAfter))
    throw badRequest(
      `expiresAfter: expected whole seconds from 1 to ${MOST_EXPIRES_AFTER}, got ${shown(expiresAfter)}`,
    );
  if (delaySeconds === undefined) return { expiresAfter };
  if (!isWhole(delaySeconds, 0, MOST_DELAY_SECONDS))
    throw badRequest(
      `delaySeconds: expected whole seconds from 0 to ${MOST_DELAY_SECONDS}, got ${shown(delaySeconds)}`,
    );
  const [name, limit] =
    expiresAfter === undefined || (ttlSeconds > 0 && ttlSeconds < expiresAfter)
      ? ['queue.recordTtlSeconds', ttlSeconds]
      : ['expiresAfter', expiresAfter];
  if (limit > 0 && delaySeconds >= limit)
    throw badRequest(`delaySeconds: with ${delaySeconds} and ${name} ${limit} the record would never run`);
  return { expiresAfter, delaySeconds };
}

/** Parameters of a query. A text that is not a number stays, so that its error shows it. */
export function scheduleOfTexts(texts: { readonly [K in keyof Schedule]?: string | undefined }) {
  const read = (text: string | undefined) => (text && /^\d{1,9}$/.test(text) ? Number(text) : text);
  return { expiresAfter: read(texts.expiresAfter), delaySeconds: read(texts.delaySeconds) };
}

function isWhole(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 40);
}
