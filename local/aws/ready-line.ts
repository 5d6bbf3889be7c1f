/**
 * The messages of a queue that are ready, first in first out. fauxqs keeps them in an array, and taking the first element of a
 * long array moves all others: with 60,000 messages that takes as long as everything else.
 */
import type { SqsQueue } from './storage.ts';

type Message = SqsQueue['messages'][number];

/** The elements that were taken are given up when they are so many, and half of the array. */
const LEAST_TAKEN = 1_024;

/** What fauxqs and this project do with the array. */
class ReadyLine implements Iterable<Message> {
  #messages: (Message | undefined)[];
  #taken = 0;

  constructor(messages: Iterable<Message>) {
    this.#messages = [...messages];
  }

  get length(): number {
    return this.#messages.length - this.#taken;
  }

  at(index: number): Message | undefined {
    return this.#messages[this.#taken + index];
  }

  push(message: Message): number {
    this.#messages.push(message);
    return this.length;
  }

  shift(): Message | undefined {
    if (this.length === 0) return undefined;
    const first = this.#messages[this.#taken];
    this.#messages[this.#taken++] = undefined;
    if (this.#taken >= LEAST_TAKEN && this.#taken * 2 >= this.#messages.length) {
      this.#messages = this.#messages.slice(this.#taken);
      this.#taken = 0;
    }
    return first;
  }

  *[Symbol.iterator](): Generator<Message> {
    for (let at = this.#taken; at < this.#messages.length; at++) yield this.#messages[at] as Message;
  }
}

/** Puts a line in the place of the queue's array, and of the empty one that a purge assigns. */
export function withReadyLine(queue: SqsQueue): SqsQueue {
  if (Object.getOwnPropertyDescriptor(queue, 'messages')?.get) return queue;
  let line = new ReadyLine(queue.messages);
  return Object.defineProperty(queue, 'messages', {
    get: () => line,
    set: (messages: Iterable<Message>) => {
      line = new ReadyLine(messages);
    },
  });
}
