/** When a record is to run, as its sender says it. */
import { badRequest, type ServingError } from './errors.ts';
import type { Unchecked } from './notice.ts';

export interface Schedule {
  /**
   * Seconds from the enqueue, 1 to 1,209,600, after which the record is not run any more: it then fails with `record_expired`. Default: the
   * job's `queue.recordTtlSeconds`, if it has one; the smaller of the two counts.
   */
  readonly expiresAfter?: number | undefined;
  /** Seconds from the enqueue, 0 to 900, before which the record is not run. Default 0. */
  readonly delaySeconds?: number | undefined;
  /**
   * `high`: the record does not wait behind the others, because it has a queue and a share of the functions of its own. The job needs
   * `queue.highShare`; without it `bad_request`. Default `normal`.
   */
  readonly priority?: Priority | undefined;
}

export type Priority = 'high' | 'normal';

/** The job's settings of the queue that decide what a record may ask for. Default: the caller does not know them. */
interface QueueRules {
  readonly recordTtlSeconds: number;
  readonly highShare: number;
}

/** SQS keeps no message longer: 14 days. */
export const MOST_EXPIRES_AFTER = 1_209_600;
/** By SQS. */
export const MOST_DELAY_SECONDS = 900;

export function isExpiresAfter(value: unknown): value is number {
  return isWhole(value, 1, MOST_EXPIRES_AFTER);
}

/** @throws bad_request */
export function assertSchedule(
  { expiresAfter, delaySeconds, priority }: Unchecked<Schedule>,
  { recordTtlSeconds: ttlSeconds = 0, highShare = 1 }: Partial<QueueRules> = {},
): Schedule {
  if (priority !== undefined && !isPriority(priority))
    throw badRequest(`priority: expected "high" or "normal", got ${shown(priority)}`);
  if (priority === 'high' && highShare === 0) throw withoutPriorities();
  if (expiresAfter !== undefined && !isExpiresAfter(expiresAfter))
    throw badRequest(
      `expiresAfter: expected whole seconds from 1 to ${MOST_EXPIRES_AFTER}, got ${shown(expiresAfter)}`,
    );
  if (delaySeconds === undefined) return { expiresAfter, priority };
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
  return { expiresAfter, delaySeconds, priority };
}

/** The refusal of a job that has one queue. */
export function withoutPriorities(): ServingError {
  return badRequest(
    'priority: the job has no queue for "high"; set queue.highShare in its config.yaml, such as 0.7',
  );
}

function isPriority(value: unknown): value is Priority {
  return value === 'high' || value === 'normal';
}

/** Parameters of a query. A text that is not a number stays, so that its error shows it. */
export function scheduleOfTexts(
  texts: { readonly [K in keyof Schedule]?: string | undefined },
): Unchecked<Schedule> {
  const read = (text: string | undefined) => (text && /^\d{1,9}$/.test(text) ? Number(text) : text);
  const { expiresAfter, delaySeconds, priority } = texts;
  return { expiresAfter: read(expiresAfter), delaySeconds: read(delaySeconds), priority };
}

function isWhole(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 40);
}
