/**
 * Invokes a handler with batches from an SQS queue, as Lambda's event source mapping does with
 * ReportBatchItemFailures. Successful messages are deleted; failed ones become visible again after their timeout,
 * until the redrive policy moves them to the dead-letter queue. They are not released early, because a poison message
 * would cause a busy loop. While whole events fail it receives less often: something is away.
 */
import { ChangeMessageVisibilityBatchCommand, type Message } from '@aws-sdk/client-sqs';
import type { SQSEvent } from 'aws-lambda';
import { errorFields, invoke, type LocalFunction, MAX_EVENT_BYTES } from '../aws/lambda.ts';
import { Deleter } from './delete.ts';
import { judge, type QueueFacts, toRecord } from './event.ts';
import { Gatherer, type HeldMessage } from './gather.ts';
import { checkOptions, describeQueue, type PollerOptions } from './options.ts';
import { backoffMs, Receiver } from './receive.ts';

export type { PollerOptions } from './options.ts';

/** {"Records":[]} with some reserve. */
const ENVELOPE_BYTES = 64;
const MAX_PER_CALL = 10;
/** The longest pause after an event of which every message failed. What is back is noticed after it. */
const MAX_REST_MS = 2_000;

interface PollerStats {
  readonly received: number;
  readonly invocations: number;
  /** Invocations that threw, timed out or returned an invalid response. */
  readonly failedInvocations: number;
  /** Messages left in the queue for another attempt. */
  readonly failedMessages: number;
  readonly deleted: number;
  /** Processed but not deleted; they will be delivered again. */
  readonly undeleted: number;
  /** Returned by close() without an attempt. */
  readonly returned: number;
  readonly receiveErrors: number;
  readonly running: number;
  readonly pending: number;
}

export interface Poller {
  /** Stops receiving, waits for running invocations and returns unprocessed messages. */
  close(): Promise<void>;
  /** Resolves when no message is waiting, in a handler or still to be deleted. */
  idle(): Promise<void>;
  stats(): PollerStats;
}

export async function startPoller(options: PollerOptions): Promise<Poller> {
  checkOptions(options);
  const source = new EventSource(options, await describeQueue(options));
  source.pump();
  let closed: Promise<void> | undefined;
  return {
    close: () => (closed ??= source.close()),
    idle: () => source.idle(),
    stats: () => source.stats(),
  };
}

class EventSource {
  readonly #options: PollerOptions;
  readonly #queue: QueueFacts;
  readonly #function: LocalFunction;
  readonly #clock: () => number;
  readonly #gatherer: Gatherer;
  readonly #receiver: Receiver;
  readonly #deleter: Deleter;
  #windowTimer: NodeJS.Timeout | undefined;
  #idleWaiters: (() => void)[] = [];
  #closing = false;
  #received = 0;
  #invocations = 0;
  #failedInvocations = 0;
  #failedMessages = 0;
  #returned = 0;
  #running = 0;
  /** Events in a row of which every message failed. */
  #failedInARow = 0;

  constructor(options: PollerOptions, queue: QueueFacts) {
    const { sqs, queueUrl, log, functionName, batchSize } = options;
    const clock = options.clock ?? (() => performance.now());
    const random = options.random ?? Math.random;
    this.#options = options;
    this.#queue = queue;
    this.#clock = clock;
    this.#function = {
      functionName,
      timeoutMs: options.functionTimeoutMs,
      region: queue.region,
      clock: options.functionClock ?? clock,
    };
    const maxBytes = MAX_EVENT_BYTES - ENVELOPE_BYTES;
    this.#gatherer = new Gatherer({ batchSize, windowMs: options.windowSeconds * 1000, maxBytes });
    this.#deleter = new Deleter({ sqs, queueUrl, log, random });
    this.#receiver = new Receiver({
      sqs,
      queueUrl,
      log,
      clock,
      random,
      waitSeconds: options.waitSeconds ?? 20,
      room: () => this.#room(),
      onMessages: (messages) => this.#hold(messages),
    });
  }

  pump(): void {
    if (this.#closing) return;
    while (this.#running < this.#options.maximumConcurrency) {
      const batch = this.#gatherer.take(this.#clock());
      if (batch === undefined) break;
      void this.#process(batch);
    }
    this.#watchWindow();
    this.#receiver.pump();
    this.#reportIdle();
  }

  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idleWaiters.push(resolve);
      this.#reportIdle();
    });
  }

  stats(): PollerStats {
    return {
      received: this.#received,
      invocations: this.#invocations,
      failedInvocations: this.#failedInvocations,
      failedMessages: this.#failedMessages,
      deleted: this.#deleter.deleted,
      undeleted: this.#deleter.failed,
      returned: this.#returned,
      receiveErrors: this.#receiver.errors,
      running: this.#running,
      pending: this.#gatherer.size,
    };
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearTimeout(this.#windowTimer);
    await this.#receiver.stop();
    await this.#giveBack(this.#gatherer.drain());
    const { functionTimeoutMs, closeTimeoutMs = Math.min(functionTimeoutMs, 10_000) } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, closeTimeoutMs);
    });
    await Promise.race([this.idle(), limit]);
    clearTimeout(timer);
    if (this.#running > 0) {
      this.#options.log.warn(`closed with ${this.#running} invocations running; their messages come again`);
    }
  }

  /** How many more messages can be processed now. Others stay visible to other consumers. */
  #room(): number {
    const free = this.#options.maximumConcurrency - this.#running;
    if (this.#gatherer.bytes >= free * MAX_EVENT_BYTES) return 0;
    return free * this.#options.batchSize - this.#gatherer.size;
  }

  #hold(messages: readonly Message[]): void {
    const arrivedMs = this.#clock();
    this.#received += messages.length;
    this.#gatherer.add(
      messages.map((message): HeldMessage => {
        const record = toRecord(message, this.#queue);
        const bytes = Buffer.byteLength(JSON.stringify(record)) + 1;
        return { messageId: record.messageId, receiptHandle: record.receiptHandle, record, bytes, arrivedMs };
      }),
    );
    this.pump();
  }

  /** Sets a timer for the end of the open batch's window. A full batch needs only a free slot. */
  #watchWindow(): void {
    clearTimeout(this.#windowTimer);
    const dueAtMs = this.#gatherer.dueAtMs();
    if (dueAtMs === undefined || this.#running >= this.#options.maximumConcurrency) return;
    this.#windowTimer = setTimeout(() => this.pump(), Math.max(1, dueAtMs - this.#clock()));
  }

  async #process(batch: readonly HeldMessage[]): Promise<void> {
    this.#running += 1;
    this.#invocations += 1;
    const done = await this.#invoke(batch);
    this.#failedMessages += batch.length - done.length;
    this.#restAfter(done.length === 0);
    await this.#deleter.delete(done.map((message) => message.receiptHandle));
    this.#running -= 1;
    this.pump();
    this.#reportIdle();
  }

  #restAfter(hasFailed: boolean): void {
    if (!hasFailed) {
      this.#failedInARow = 0;
      return;
    }
    const random = this.#options.random ?? Math.random;
    this.#receiver.rest(Math.min(MAX_REST_MS, backoffMs(this.#failedInARow, random)));
    this.#failedInARow += 1;
  }

  /** Returns the messages that succeeded. */
  async #invoke(batch: readonly HeldMessage[]): Promise<readonly HeldMessage[]> {
    const event: SQSEvent = { Records: batch.map((message) => message.record) };
    const { handler, log, functionName, invoke: around = (work) => work() } = this.#options;
    const invocation = await around(() => invoke(handler, event, this.#function));
    const where = { functionName, messages: batch.length };
    if (invocation.kind === 'returned') {
      const verdict = judge(invocation.result, new Set(batch.map((message) => message.messageId)));
      if (verdict.kind === 'answered') {
        return batch.filter((message) => !verdict.failedIds.has(message.messageId));
      }
      log.error(`the whole batch failed: ${verdict.problem}`, where);
    } else if (invocation.kind === 'timed_out') {
      log.error(`the whole batch failed: no result after ${invocation.afterMs} ms`, where);
    } else {
      log.error('the whole batch failed: the handler threw', { ...where, ...errorFields(invocation.error) });
    }
    this.#failedInvocations += 1;
    return [];
  }

  async #giveBack(messages: readonly HeldMessage[]): Promise<void> {
    const { sqs, queueUrl, log } = this.#options;
    for (let start = 0; start < messages.length; start += MAX_PER_CALL) {
      const part = messages.slice(start, start + MAX_PER_CALL);
      const Entries = part.map((message, id) => ({
        Id: String(id),
        ReceiptHandle: message.receiptHandle,
        VisibilityTimeout: 0,
      }));
      try {
        const reply = await sqs.send(
          new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }),
        );
        this.#returned += reply.Successful?.length ?? 0;
      } catch (error) {
        log.warn('messages could not be given back; they come again later', errorFields(error));
      }
    }
  }

  #reportIdle(): void {
    if (this.#running > 0 || this.#gatherer.size > 0) return;
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
  }
}
