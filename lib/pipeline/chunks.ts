/**
 * An event's messages, in chunks that run one after the other. New messages come first, those that were delivered before
 * come last: one of them may have ended or outlived the function. A chunk holds no more than may be in memory at once,
 * because what a message points at may be thousands of times its size.
 */
import type { ServingError } from '../contract/errors.ts';
import { type Deadline, deadlineCheck, noTimeLeft } from './deadline.ts';

/** A message as SQS delivers it. */
export interface Delivered {
  readonly messageId: string;
  readonly attributes: { readonly ApproximateReceiveCount?: string };
  readonly body: string;
}

export interface Message {
  readonly id: string;
  /** How often it was delivered, this time included. */
  readonly attempts: number;
  /** The message, or why it could not be had (with its uri, where that is known). */
  readonly body: string | ServingError;
}

/** Where records lie that are too large for a message. */
export interface Payloads {
  /** @returns what the bodies point at, for the first of them: as many as may be in memory, but one at least */
  resolve(bodies: readonly string[]): Promise<readonly (string | ServingError)[]>;
}

type Unloaded = Message & { readonly body: string };

/** @returns chunks until there is no time for another; the last one then holds a `timeout` in place of each body */
export async function* chunksOf(
  records: readonly Delivered[],
  payloads: Payloads,
  { remainingMs }: Deadline,
): AsyncGenerator<readonly Message[]> {
  const messages = records.map(messageOf);
  const isOver = deadlineCheck(remainingMs);
  const late: Message[] = [];
  for (const kind of [messages.filter(isFresh), messages.filter((message) => !isFresh(message))]) {
    for (let left = kind; left.length > 0; ) {
      if (isOver()) {
        late.push(...left.map((message) => ({ ...message, body: noTimeLeft() })));
        break;
      }
      const bodies = await payloads.resolve(left.map(({ body }) => body));
      yield bodies.map((body, i) => ({ ...(left[i] as Unloaded), body }));
      left = left.slice(bodies.length);
    }
  }
  if (late.length > 0) yield late;
}

function messageOf({ messageId, attributes, body }: Delivered): Unloaded {
  return { id: messageId, attempts: Number(attributes.ApproximateReceiveCount ?? 1), body };
}

function isFresh({ attempts }: Message): boolean {
  return attempts <= 1;
}
