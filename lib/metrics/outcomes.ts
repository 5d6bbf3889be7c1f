/**
 * Logs and counts the outcomes of a batch. A record that failed because of its own content is counted but not logged.
 */
import { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import { problemsOf, type RanRecords } from '../pipeline/serve.ts';
import { measure, measureFailures } from './emf.ts';

export function reportOutcomes(ran: RanRecords): void {
  measure('Rows', ran.finished.length + ran.returned.length);
  for (const { outcome } of ran.finished) if (!outcome.ok) measureFailures(outcome.error.code);
  for (const { error } of ran.returned) measureFailures(error.code);
  for (const { error, ...what } of problemsOf(ran)) logError(error, what);
}

/** The model or Redis is unavailable, so all messages of the event are delivered again. */
export function reportFailedEvent(error: unknown, messages: number): void {
  measureFailures(ServingError.from(error).code, messages);
  logError(error, { messages });
}
