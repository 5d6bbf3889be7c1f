/**
 * Deletes processed messages in batches of ten, several at once, with retries. Single entries of a successful call
 * can fail: errors of the service are retried, errors of the caller (an expired handle) are not, and that message is
 * delivered again (at-least-once delivery).
 */
import { DeleteMessageBatchCommand } from '@aws-sdk/client-sqs';
import type { SqsCalls } from '../aws/direct.ts';
import { errorFields, type LocalLog } from '../aws/lambda.ts';
import { backoffMs } from './receive.ts';

const MAX_PER_CALL = 10;
const MAX_CALLS = 4;
const MAX_ATTEMPTS = 5;

interface Entry {
  readonly receiptHandle: string;
  readonly done: () => void;
  attempts: number;
}

interface DeleterOptions {
  readonly sqs: SqsCalls;
  readonly queueUrl: string;
  readonly log: LocalLog;
  readonly random: () => number;
}

export class Deleter {
  readonly #options: DeleterOptions;
  readonly #waiting: Entry[] = [];
  #calls = 0;
  #pause: NodeJS.Timeout | undefined;
  deleted = 0;
  failed = 0;

  constructor(options: DeleterOptions) {
    this.#options = options;
  }

  /** Resolves when every message is deleted or given up. Never rejects. */
  async delete(receiptHandles: readonly string[]): Promise<void> {
    const all = receiptHandles.map(
      (receiptHandle) =>
        new Promise<void>((done) => {
          this.#waiting.push({ receiptHandle, done, attempts: 0 });
        }),
    );
    this.#pump();
    await Promise.all(all);
  }

  #pump(): void {
    while (this.#pause === undefined && this.#calls < MAX_CALLS && this.#waiting.length > 0) {
      this.#calls += 1;
      void this.#send(this.#waiting.splice(0, MAX_PER_CALL));
    }
  }

  async #send(entries: readonly Entry[]): Promise<void> {
    const { sqs, queueUrl, log } = this.#options;
    try {
      const Entries = entries.map((entry, id) => ({ Id: String(id), ReceiptHandle: entry.receiptHandle }));
      const reply = await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
      const refused = new Map((reply.Failed ?? []).map((failure) => [failure.Id, failure]));
      for (const [id, entry] of entries.entries()) {
        const failure = refused.get(String(id));
        if (failure === undefined) this.#end(entry, true);
        else if (failure.SenderFault === true) this.#giveUp([entry], `${failure.Code}: ${failure.Message}`);
        else this.#again([entry]);
      }
    } catch (error) {
      log.warn('deleting messages failed', errorFields(error));
      this.#again(entries);
    }
    this.#calls -= 1;
    this.#pump();
  }

  #again(entries: readonly Entry[]): void {
    for (const entry of entries) {
      entry.attempts += 1;
      if (entry.attempts < MAX_ATTEMPTS) this.#waiting.unshift(entry);
      else this.#giveUp([entry], `${MAX_ATTEMPTS} attempts`);
    }
    const attempts = entries[0]?.attempts ?? 1;
    this.#pause ??= setTimeout(
      () => {
        this.#pause = undefined;
        this.#pump();
      },
      backoffMs(attempts - 1, this.#options.random),
    );
  }

  #giveUp(entries: readonly Entry[], reason: string): void {
    this.#options.log.error('a finished message could not be deleted and will come again', { reason });
    for (const entry of entries) this.#end(entry, false);
  }

  #end(entry: Entry, isDeleted: boolean): void {
    if (isDeleted) this.deleted += 1;
    else this.failed += 1;
    entry.done();
  }
}
