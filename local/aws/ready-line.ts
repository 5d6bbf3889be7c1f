/**
 * The messages of a queue that are ready, first in first out. fauxqs keeps them in an array, and removing the first element of a
 * long array moves all others: with 60,000 messages that takes as long as everything else.
 */

/** The array is cut when this many elements at its start have been removed, and they are half of it. */
const LEAST_REMOVED = 1_024;

/** The uses of the array by fauxqs and by this project. */
class ReadyLine<Message> implements Iterable<Message> {
  #messages: (Message | undefined)[];
  /** Where the first one is. */
  #first = 0;

  constructor(messages: Iterable<Message>) {
    this.#messages = [...messages];
  }

  get length(): number {
    return this.#messages.length - this.#first;
  }

  at(index: number): Message | undefined {
    return this.#messages[this.#first + index];
  }

  push(message: Message): number {
    this.#messages.push(message);
    return this.length;
  }

  shift(): Message | undefined {
    if (this.length === 0) return undefined;
    const message = this.#messages[this.#first];
    this.#messages[this.#first++] = undefined;
    if (this.#first >= LEAST_REMOVED && this.#first * 2 >= this.#messages.length) {
      this.#messages = this.#messages.slice(this.#first);
      this.#first = 0;
    }
    return message;
  }

  *[Symbol.iterator](): Generator<Message> {
    for (let index = 0; index < this.length; index++) {
      const message = this.at(index);
      if (message !== undefined) yield message;
    }
  }
}

/** Puts a line in the place of the queue's array, and of the empty one that a purge assigns. */
export function withReadyLine<Queue extends { messages: Iterable<unknown> }>(queue: Queue): Queue {
  if (Object.getOwnPropertyDescriptor(queue, 'messages')?.get) return queue;
  let line = new ReadyLine(queue.messages);
  return Object.defineProperty(queue, 'messages', {
    get: () => line,
    set: (messages: Iterable<unknown>) => {
      line = new ReadyLine(messages);
    },
  });
}
