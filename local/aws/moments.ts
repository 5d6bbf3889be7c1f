/**
 * Keeps what the queues of fauxqs know of time right when the clock of this machine is set. fauxqs notes moments by the wall
 * clock and compares them with it later. Here such a moment is kept by a clock that only runs, and read as what it is by the
 * wall clock now, so the time between them is the time that has passed. The order of messages is a number of its own.
 */
import type { SqsQueue } from './stores.ts';

type QueuedMessage = NonNullable<ReturnType<SqsQueue['messages']['at']>>;
type Delivery = NonNullable<ReturnType<SqsQueue['inflightMessages']['get']>>;

/** Smaller differences are those of two clocks that are read one after the other. */
const SET_MS = 5;
/** Between the wall clock and one that only runs; it changes when the wall clock is set. */
let offsetMs = Date.now() - performance.now();

/** Before moments are read: a queue reads those of all its messages at once. */
function readClock(): void {
  const measuredMs = Date.now() - performance.now();
  if (Math.abs(measuredMs - offsetMs) > SET_MS) offsetMs = measuredMs;
}

function toRunning(wallMs: number): number {
  readClock();
  return wallMs - offsetMs;
}

function toWall(runningMs: number): number {
  return Math.round(runningMs + offsetMs);
}

/** A message whose age, delay and place in the order do not change with the clock. */
class TimedMessage implements QueuedMessage {
  readonly messageId: string;
  readonly body: string;
  readonly md5OfBody: string;
  readonly messageAttributes: QueuedMessage['messageAttributes'];
  readonly md5OfMessageAttributes: string;
  readonly sequenceNumber: string;
  readonly messageGroupId?: string;
  readonly messageDeduplicationId?: string;
  approximateReceiveCount: number;
  approximateFirstReceiveTimestamp?: number;
  readonly #sentAt: number;
  readonly #delayUntil: number | undefined;

  constructor(message: QueuedMessage, order: () => number) {
    const { messageGroupId, messageDeduplicationId, approximateFirstReceiveTimestamp } = message;
    const { sequenceNumber, delayUntil } = message;
    this.messageId = message.messageId;
    this.body = message.body;
    this.md5OfBody = message.md5OfBody;
    this.messageAttributes = message.messageAttributes;
    this.md5OfMessageAttributes = message.md5OfMessageAttributes;
    this.approximateReceiveCount = message.approximateReceiveCount;
    this.sequenceNumber = sequenceNumber ?? String(order());
    this.#sentAt = toRunning(message.sentTimestamp);
    this.#delayUntil = delayUntil ? toRunning(delayUntil) : undefined;
    if (messageGroupId !== undefined) this.messageGroupId = messageGroupId;
    if (messageDeduplicationId !== undefined) this.messageDeduplicationId = messageDeduplicationId;
    if (approximateFirstReceiveTimestamp !== undefined)
      this.approximateFirstReceiveTimestamp = approximateFirstReceiveTimestamp;
  }

  get sentTimestamp(): number {
    return toWall(this.#sentAt);
  }

  get delayUntil(): number {
    // fauxqs takes 0 for a message without a delay.
    return this.#delayUntil === undefined ? 0 : toWall(this.#delayUntil);
  }
}

/** A delivery whose message becomes visible again in time. */
class TimedDelivery implements Delivery {
  readonly message: QueuedMessage;
  readonly receiptHandle: string;
  #deadline = 0;

  constructor({ message, receiptHandle, visibilityDeadline }: Delivery) {
    this.message = message;
    this.receiptHandle = receiptHandle;
    this.visibilityDeadline = visibilityDeadline;
  }

  get visibilityDeadline(): number {
    return toWall(this.#deadline);
  }

  set visibilityDeadline(wallMs: number) {
    this.#deadline = toRunning(wallMs);
  }
}

class Deliveries extends Map<string, Delivery> {
  override set(handle: string, delivery: Delivery): this {
    return super.set(handle, new TimedDelivery(delivery));
  }
}

/** @param numbers of the messages that come */
export function withMoments(queue: SqsQueue, numbers: OrderNumbers): SqsQueue {
  const enqueue = queue.enqueue.bind(queue);
  // A message that moves to the dead letters keeps its own.
  queue.enqueue = (message) =>
    enqueue(message instanceof TimedMessage ? message : new TimedMessage(message, () => numbers.next()));
  const processTimers = queue.processTimers.bind(queue);
  queue.processTimers = () => {
    readClock();
    processTimers();
  };
  queue.inflightMessages = new Deliveries();
  return queue;
}

/** Stored messages keep their numbers. One without would be ordered by the time at which it was sent. */
export function timeStored(queue: SqsQueue): void {
  const timed = (message: QueuedMessage) => new TimedMessage(message, () => message.sentTimestamp);
  queue.messages = Array.from(queue.messages, timed);
  queue.delayedMessages = queue.delayedMessages.map(timed);
}

/** Numbers that only grow: about the time in ms. */
export class OrderNumbers {
  #last: number;

  /** @param last no number that was given before is larger */
  constructor(last: number) {
    this.#last = last;
  }

  next(): number {
    this.latest();
    return ++this.#last;
  }

  /** At least every number that was given, and below all that will be. */
  latest(): number {
    this.#last = Math.max(Date.now() - 1, this.#last);
    return this.#last;
  }
}
