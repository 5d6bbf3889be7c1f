/**
 * Splits an event's messages into chunks that run one after the other. New messages come first and redelivered ones
 * last, because one of those may have ended or outlived the function. A chunk holds no more than may be in memory at
 * once, because a message may point at thousands of times its size.
 */

import { type DeliveredMessage, enqueueOf } from '../codecs/attributes.ts';
import { uriOf } from '../codecs/dead-letter.ts';
import type { Enqueue } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';
import { type Deadline, deadlineCheck, noTimeLeft } from './deadline.ts';

/** A message as SQS delivers it. */
export interface Delivered extends DeliveredMessage {
  readonly attributes: {
    readonly ApproximateReceiveCount?: string;
    readonly SentTimestamp?: string;
    readonly MessageGroupId?: string | undefined;
  };
  readonly body: string;
}

export interface Message {
  readonly id: string;
  readonly enqueue: Enqueue;
  /** The number of its deliveries, including this one. */
  readonly attempts: number;
  /** The attribute `canary-key`, else the tenant. */
  readonly key?: string | undefined;
  /** The message, or why it could not be read (with its uri, if known). */
  readonly body: string | ServingError;
}

/** The store of records that are too large for a message. */
export interface Payloads {
  /** @returns the content for the first of the bodies: as many as may be in memory, but at least one */
  resolve(bodies: readonly string[]): Promise<readonly (string | ServingError)[]>;
}

type Unloaded = Message & { readonly body: string };

/** Answers why a message is too old to run; undefined when it is not. */
export type AgeLimit = (delivered: Delivered, enqueue: Enqueue) => ServingError | undefined;

/**
 * Counts from when SQS took the message. A replayed dead letter is a new message, so it is as young as its replay.
 * @param ttlSeconds of every record, where its sender did not say less. 0: no other message is too old
 * @param now wall clock in ms
 */
export function ageLimit(ttlSeconds: number, now: () => number): AgeLimit {
  return ({ attributes: { SentTimestamp }, body }, { expiresAfter = 0 }) => {
    const isOwn = expiresAfter > 0 && (ttlSeconds === 0 || expiresAfter < ttlSeconds);
    const limit = isOwn ? expiresAfter : ttlSeconds;
    const ageMs = now() - Number(SentTimestamp);
    if (limit === 0 || !(ageMs > limit * 1000)) return undefined;
    const name = isOwn ? 'its expiresAfter' : 'queue.recordTtlSeconds';
    const message = `the record waited ${Math.floor(ageMs / 1000)} s in the queue, longer than ${name} ${limit}, and was not run`;
    return new ServingError('record_expired', message, { uri: uriOf(body) });
  };
}

/** @returns chunks until no time is left for another; the last one then has a `timeout` instead of each body */
export async function* chunksOf(
  records: readonly Delivered[],
  payloads: Payloads,
  { remainingMs }: Deadline,
  expired: AgeLimit = () => undefined,
): AsyncGenerator<readonly Message[]> {
  const old: Message[] = [];
  const messages: Unloaded[] = [];
  for (const delivered of records) {
    const message = messageOf(delivered);
    const error = expired(delivered, message.enqueue);
    // Without a uri its failure could not be stored: it takes the way of every message that cannot be read.
    if (error?.uri === undefined) messages.push(message);
    else old.push({ ...message, body: error });
  }
  if (old.length > 0) yield old;
  const isOver = deadlineCheck(remainingMs);
  const late: Message[] = [];
  for (const kind of [messages.filter(isFresh), messages.filter((message) => !isFresh(message))]) {
    for (let left = kind; left.length > 0; ) {
      if (isOver()) {
        late.push(...left.map((message) => ({ ...message, body: noTimeLeft() })));
        break;
      }
      const bodies = await payloads.resolve(left.map(({ body }) => body));
      yield bodies.map((body, i) => withBody(elementAt(left, i, 'left'), body));
      left = left.slice(bodies.length);
    }
  }
  if (late.length > 0) yield late;
}

function withBody(message: Unloaded, body: Message['body']): Message {
  return body === message.body ? message : { ...message, body };
}

function messageOf(delivered: Delivered): Unloaded {
  const { messageId, attributes, body } = delivered;
  const attempts = Number(attributes.ApproximateReceiveCount ?? 1);
  const enqueue = enqueueOf(delivered);
  const { canaryKey, model } = enqueue;
  const { MessageGroupId: group } = attributes;
  // A group that is the model's does not name the sender.
  const tenant = group === model ? undefined : group;
  return { id: messageId, enqueue, attempts, key: canaryKey ?? tenant, body };
}

function isFresh({ attempts }: Message): boolean {
  return attempts <= 1;
}
