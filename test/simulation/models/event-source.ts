/**
 * The event source mapping of Lambda: receives batches, invokes the function, deletes what did not fail, and leaves the rest
 * to its visibility timeout. Its weaknesses: a message is delivered to two batches, a delete is lost, an invocation is throttled.
 */
import { judge, toRecord } from '../../../local/event-source/event.ts';
import type { Choices } from '../machine/random.ts';
import type { Scheduler } from '../machine/scheduler.ts';
import type { FunctionModel, Invoked } from './lambda.ts';
import type { QueueMessage, SqsQueue } from './sqs.ts';

export interface SourceOptions {
  readonly queue: SqsQueue;
  readonly pool: FunctionModel;
  readonly batchSize: number;
  readonly windowMs: number;
  /** The share of messages that can be received once more at once. */
  readonly twice: () => number;
  readonly lostDelete: () => number;
}

export interface SourceHooks {
  readonly onBatch: (messages: readonly QueueMessage[]) => void;
  readonly onOutcome: (
    messages: readonly QueueMessage[],
    invoked: Invoked,
    failed: ReadonlySet<string>,
    startedMs: number,
  ) => void;
}

const FACTS = { arn: 'arn:aws:sqs:eu-west-1:1:job', region: 'eu-west-1' };
const FULL_MS = 250;

export class EventSource {
  readonly #options: SourceOptions;
  readonly #hooks: SourceHooks;
  readonly #scheduler: Scheduler;
  readonly #choices: Choices;
  readonly #name: string;
  #polls: { readonly atMs: number; isCancelled: boolean } | undefined;

  constructor(scheduler: Scheduler, choices: Choices, options: SourceOptions, hooks: SourceHooks) {
    this.#scheduler = scheduler;
    this.#choices = choices;
    this.#options = options;
    this.#hooks = hooks;
    this.#name = `source ${options.queue.options.name}`;
    options.queue.onChange = () => this.#wake();
  }

  #wake(): void {
    const nextMs = this.#options.queue.nextMs();
    if (nextMs === undefined) return;
    this.#pollAfter(
      nextMs +
        this.#options.windowMs * this.#choices.next(this.#name) +
        this.#choices.between(this.#name, 2, 40),
    );
  }

  #pollAfter(ms: number): void {
    const atMs = this.#scheduler.nowMs + ms;
    if (this.#polls && this.#polls.atMs <= atMs) return;
    if (this.#polls) this.#polls.isCancelled = true;
    const poll = { atMs, isCancelled: false };
    this.#polls = poll;
    this.#scheduler.after(ms, undefined, () => {
      if (poll.isCancelled) return;
      this.#polls = undefined;
      this.#poll();
    });
  }

  #poll(): void {
    const { queue, pool, batchSize, twice } = this.#options;
    if (pool.isFull) return this.#pollAfter(FULL_MS);
    const messages = queue.receive(this.#choices.whole(this.#name, 1, batchSize));
    for (const { id } of messages) {
      const message = queue.messages.get(id);
      if (message && this.#choices.chance(this.#name, twice())) {
        message.visibleAt -= queue.options.visibilityMs - this.#choices.between(this.#name, 0, 3_000);
      }
    }
    this.#wake();
    if (messages.length === 0) return;
    this.#hooks.onBatch(messages);
    const event = { Records: messages.map((message) => toRecord(asReceived(message), FACTS)) };
    const startedMs = this.#scheduler.nowMs;
    pool.invoke(event, (invoked) => this.#settle(messages, invoked, startedMs));
  }

  #settle(messages: readonly QueueMessage[], invoked: Invoked, startedMs: number): void {
    const { queue, lostDelete } = this.#options;
    const ids = new Set(messages.map(({ id }) => id));
    const verdict = invoked.kind === 'answered' ? judge(invoked.answer, ids) : undefined;
    const failed = verdict?.kind === 'answered' ? verdict.failedIds : ids;
    this.#hooks.onOutcome(messages, invoked, failed, startedMs);
    for (const message of messages) {
      if (failed.has(message.id) || this.#choices.chance(this.#name, lostDelete())) continue;
      queue.remove(message);
    }
    this.#wake();
  }
}

function asReceived(message: QueueMessage) {
  return {
    MessageId: message.id,
    ReceiptHandle: message.receipt,
    Body: message.body,
    Attributes: {
      ApproximateReceiveCount: String(message.receives),
      SentTimestamp: String(message.sentAt),
      ApproximateFirstReceiveTimestamp: String(message.firstReceivedAt),
      ...(message.groupId === undefined ? {} : { MessageGroupId: message.groupId }),
    },
    MessageAttributes: message.attributes,
  };
}
