/**
 * In: an event's messages. Out: the parts that run one after the other, and how each runs.
 * Trap: one record can end the function or outlive it, and all its neighbours come again. So what came back runs behind
 * a fence, and after what is new.
 */
import type { Runner } from '../contract/values.ts';
import type { ServingError } from '../errors.ts';
import type { Message, RunRecords } from './records.ts';
import { runSuspects } from './suspects.ts';
import { keepTime, type RunTime } from './time.ts';

/** A message as SQS hands it over. */
interface Delivered {
  readonly messageId: string;
  readonly attributes: { readonly ApproximateReceiveCount?: string };
}

/** @param bodies one for each, in order */
export function messagesOf(
  records: readonly Delivered[],
  bodies: readonly (string | ServingError)[],
): Message[] {
  return records.map(({ messageId, attributes }, i) => ({
    id: messageId,
    tries: Number(attributes.ApproximateReceiveCount ?? 1),
    body: bodies[i] as string | ServingError,
  }));
}

/**
 * The messages in the parts that run one after the other: those that are here for the first time, then those that came
 * back. Somebody among these may have ended or outlived the function the last time.
 */
export function partsOf(messages: readonly Message[]): (readonly Message[])[] {
  const fresh = messages.filter(({ tries }) => tries <= 1);
  const again = messages.filter(({ tries }) => tries > 1);
  return [fresh, again].filter((part) => part.length > 0);
}

/** How one part's records run: at once and unguarded, or, when they came back, behind the runner's fence. */
export function runPart(part: readonly Message[], runner: Runner, time: RunTime): RunRecords {
  const tries = Math.max(...part.map((message) => message.tries));
  const fenced = runner.fenced?.bind(runner);
  if (tries > 1 && fenced) return (records) => runSuspects(records, fenced, time, tries);
  return (records) => runner.run(records, { isOver: keepTime(time.remainingMs) });
}
