/**
 * Receives as many messages as can be processed: one long poll while the queue is quiet, up to five at once under
 * load. Calls in flight count too, because a message that has to wait would lose visibility time. A server that
 * answers empty polls at once must not cause a busy loop.
 */
import { type Message, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import type { SqsCalls } from '../aws/direct.ts';
import { errorFields, type LocalLog } from '../aws/lambda.ts';

/** SQS's limit for one call. */
const MAX_PER_CALL = 10;
/** The number of pollers that Lambda starts with. */
const MAX_CALLS = 5;
/** An empty answer within this time did not wait. */
const HASTY_MS = 100;
const MAX_HASTY_PAUSE_MS = 200;
const FIRST_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 10_000;
/** How long after its wait time a long poll is abandoned. */
const ANSWER_MS = 10_000;

interface ReceiverOptions {
  readonly sqs: SqsCalls;
  readonly queueUrl: string;
  /** The duration of one long poll, 0 to 20. */
  readonly waitSeconds: number;
  readonly log: LocalLog;
  readonly clock: () => number;
  /** Returns 0 to 1, for the jitter. */
  readonly random: () => number;
  /** How many more messages can be held now. */
  readonly room: () => number;
  readonly onMessages: (messages: readonly Message[]) => void;
}

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #calls = new Set<AbortController>();
  #asked = 0;
  #parallel = 1;
  #failures = 0;
  #hasty = 0;
  #pause: NodeJS.Timeout | undefined;
  #stopped = false;
  #onStopped: () => void = () => undefined;
  errors = 0;

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  /** Starts as many calls as room and load allow. Must be called whenever either grows. */
  pump(): void {
    while (!this.#stopped && this.#pause === undefined && this.#calls.size < this.#parallel) {
      const ask = Math.min(MAX_PER_CALL, this.#options.room() - this.#asked);
      if (ask <= 0) return;
      void this.#receive(ask);
    }
  }

  /** Starts no call for a while. */
  rest(ms: number): void {
    this.#wait(ms);
  }

  /** Aborts all calls. Messages that still arrive go to onMessages. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#pause);
    for (const call of this.#calls) call.abort();
    if (this.#calls.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onStopped = resolve;
    });
  }

  async #receive(ask: number): Promise<void> {
    const { sqs, queueUrl, waitSeconds, clock } = this.#options;
    const call = new AbortController();
    const limit = setTimeout(() => call.abort(), waitSeconds * 1000 + ANSWER_MS);
    const startedMs = clock();
    this.#calls.add(call);
    this.#asked += ask;
    let messages: readonly Message[] = [];
    try {
      const command = new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: ask,
        WaitTimeSeconds: waitSeconds,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['All'],
      });
      messages = (await sqs.send(command, { abortSignal: call.signal })).Messages ?? [];
      this.#adapt(messages.length, ask, clock() - startedMs);
    } catch (error) {
      if (!this.#stopped) this.#backOff(error);
    }
    clearTimeout(limit);
    this.#calls.delete(call);
    this.#asked -= ask;
    if (messages.length > 0) this.#options.onMessages(messages);
    if (this.#stopped && this.#calls.size === 0) this.#onStopped();
    this.pump();
  }

  #adapt(count: number, ask: number, tookMs: number): void {
    this.#failures = 0;
    if (count === ask) this.#parallel = Math.min(MAX_CALLS, this.#parallel * 2);
    else this.#parallel = count === 0 ? 1 : Math.max(1, this.#parallel - 1);
    this.#hasty = count === 0 && tookMs < HASTY_MS ? this.#hasty + 1 : 0;
    // Two in a row are normal: a message wakes every long poll of a queue and only one gets it.
    if (this.#hasty > 2) this.#wait(Math.min(MAX_HASTY_PAUSE_MS, 2 ** this.#hasty));
  }

  #backOff(error: unknown): void {
    this.errors += 1;
    this.#parallel = 1;
    if (this.#pause !== undefined) return;
    const pauseMs = backoffMs(this.#failures, this.#options.random);
    this.#failures += 1;
    this.#options.log.warn(`receiving failed, next try in ${Math.round(pauseMs)} ms`, errorFields(error));
    this.#wait(pauseMs);
  }

  #wait(pauseMs: number): void {
    if (this.#pause !== undefined || this.#stopped) return;
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.pump();
    }, pauseMs);
  }
}

/** 100 ms, doubling up to 10 s, minus a random part of up to one half. */
export function backoffMs(failures: number, random: () => number): number {
  const fullMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures, 20));
  return fullMs * (0.5 + random() / 2);
}
