/**
 * In: an event's messages. Out: the parts that run one after the other, and how each runs.
 * Trap: one record can end the function or outlive it, and all its neighbours come again. So what came back runs behind
 * a fence, and after what is new. And what a message points at may be thousands of times its size: a part is no more
 * than may be in memory at once.
 */

import { ServingError } from '../contract/errors.ts';
import type { Runner } from '../contract/values.ts';
import { keepTime, type RunTime } from './deadline.ts';
import { runSuspects } from './poison-isolation.ts';
import type { Message, RanRecords, RunRecords } from './records.ts';

/** A message as SQS hands it over. */
interface Delivered {
  readonly messageId: string;
  readonly attributes: { readonly ApproximateReceiveCount?: string };
  readonly body: string;
}

/** A message as it came: its body may point at a payload that is not loaded. */
type Unloaded = Message & { readonly body: string };

function messageOf({ messageId, attributes, body }: Delivered): Unloaded {
  return { id: messageId, tries: Number(attributes.ApproximateReceiveCount ?? 1), body };
}

/** @returns what payloads bodies point at, for the first of them: as many as may be in memory, but one at least */
export type LoadPayloads = (bodies: readonly string[]) => Promise<readonly (string | ServingError)[]>;

/**
 * Runs the messages in parts one after the other: those that are here for the first time, then those that came back.
 * Somebody among these may have ended or outlived the function the last time.
 * @returns what was not begun, for it would not have ended in time
 */
export async function runParts(
  records: readonly Delivered[],
  load: LoadPayloads,
  run: (part: readonly Message[]) => Promise<void>,
  { remainingMs }: RunTime,
): Promise<RanRecords['returned']> {
  const messages = records.map(messageOf);
  const isOver = keepTime(remainingMs);
  const late: Unloaded[] = [];
  for (const kind of [messages.filter(isFresh), messages.filter((message) => !isFresh(message))]) {
    for (let left = kind; left.length > 0; ) {
      if (isOver()) {
        late.push(...left);
        break;
      }
      const bodies = await load(left.map(({ body }) => body));
      await run(bodies.map((body, i) => ({ ...(left[i] as Unloaded), body })));
      left = left.slice(bodies.length);
    }
  }
  return late.map(({ id }) => ({
    id,
    error: new ServingError('timeout', 'the function had no time left for this record'),
  }));
}

const isFresh = ({ tries }: Message) => tries <= 1;

/** How one part's records run: at once and unguarded, or, when they came back, behind the runner's fence. */
export function runPart(part: readonly Message[], runner: Runner, time: RunTime): RunRecords {
  const tries = Math.max(...part.map((message) => message.tries));
  const fenced = runner.fenced?.bind(runner);
  if (tries > 1 && fenced) return (records) => runSuspects(records, fenced, time, tries);
  return (records) => runner.run(records, { isOver: keepTime(time.remainingMs) });
}
