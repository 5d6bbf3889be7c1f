/** The notices of a job on their way: how many wait and were given up, which targets are paused, and how to begin again. */
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { asError } from '../../lib/contract/errors.ts';
import { deadLetterQueueName, notifyQueueName } from '../../lib/queue/names.ts';
import { openSqs } from '../../lib/queue/sender.ts';
import { openS3 } from '../../lib/s3/client.ts';
import { OutboxReader } from '../../lib/s3/outbox-reader.ts';
import { PausedTargets } from '../../lib/s3/pauses.ts';

export interface NoticePlace {
  readonly job: string;
  readonly bucket: string;
  /** The queue of the records; the others are named after it. */
  readonly queueUrl: string;
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
}

export interface NoticeFacts {
  /** Notices that come again, and events of S3. */
  readonly waiting: number;
  /** Objects of the outbox, each with up to 500 notices. */
  readonly outbox: number;
  readonly givenUp: number;
  readonly paused: readonly string[];
}

const MOST_SHOWN = 10_000;
/** Those of other targets are hidden until all have been seen. */
const HIDDEN_SECONDS = 300;

export class Notices {
  readonly #sqs: SQSClient;
  readonly #queueUrl: string;
  readonly #deadLetterUrl: string;
  readonly #outbox: OutboxReader;
  readonly #pauses: PausedTargets;
  readonly #close: () => void;

  constructor({ job, bucket, queueUrl, endpoint, region }: NoticePlace) {
    this.#sqs = openSqs({ endpoint, region });
    this.#queueUrl = notifyQueueName(queueUrl);
    this.#deadLetterUrl = deadLetterQueueName(this.#queueUrl);
    const s3 = openS3({ endpoint, region });
    this.#outbox = new OutboxReader(s3, bucket, job);
    this.#pauses = new PausedTargets(s3, { bucket, job, now: () => performance.now() });
    this.#close = () => {
      this.#sqs.destroy();
      s3.destroy();
    };
  }

  /** @returns undefined for a job without targets. @throws errors of AWS */
  async facts(): Promise<NoticeFacts | undefined> {
    const waiting = await this.#count(this.#queueUrl);
    if (waiting === undefined) return undefined;
    let outbox = 0;
    for await (const page of this.#outbox.pages()) {
      outbox += page.length;
      if (outbox >= MOST_SHOWN) break;
    }
    const givenUp = (await this.#count(this.#deadLetterUrl)) ?? 0;
    return { waiting, outbox, givenUp, paused: await this.#pauses.list() };
  }

  /**
   * Ends the pause of a target, or of all, and puts what was given up of it into the queue again, for another day.
   * @returns how many
   */
  async resume(target: string | undefined): Promise<number> {
    for (const name of await this.#pauses.list())
      if (target === undefined || name === target) await this.#pauses.resume(name);
    // A notice that is given up meanwhile waits for the next call.
    const most = (await this.#count(this.#deadLetterUrl)) ?? 0;
    const others: string[] = [];
    let moved = 0;
    while (moved < most) {
      const received = await this.#sqs.send(
        new ReceiveMessageCommand({
          QueueUrl: this.#deadLetterUrl,
          MaxNumberOfMessages: 10,
          VisibilityTimeout: HIDDEN_SECONDS,
          WaitTimeSeconds: 1,
        }),
      );
      const messages = received.Messages ?? [];
      if (messages.length === 0) break;
      for (const { Body = '', ReceiptHandle } of messages) {
        const again = bodyOf(Body, target);
        if (again === undefined) {
          others.push(ReceiptHandle ?? '');
          continue;
        }
        // Sent before it is deleted: what ends in between sends it twice, under one id.
        await this.#sqs.send(new SendMessageCommand({ QueueUrl: this.#queueUrl, MessageBody: again }));
        await this.#sqs.send(new DeleteMessageCommand({ QueueUrl: this.#deadLetterUrl, ReceiptHandle }));
        moved++;
      }
    }
    for (const ReceiptHandle of others)
      await this.#sqs.send(
        new ChangeMessageVisibilityCommand({
          QueueUrl: this.#deadLetterUrl,
          ReceiptHandle,
          VisibilityTimeout: 0,
        }),
      );
    return moved;
  }

  close(): void {
    this.#close();
  }

  async #count(QueueUrl: string): Promise<number | undefined> {
    try {
      const ask = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] });
      const { Attributes = {} } = await this.#sqs.send(ask);
      const { ApproximateNumberOfMessages: ready, ApproximateNumberOfMessagesDelayed: delayed } = Attributes;
      return [ready, delayed, Attributes.ApproximateNumberOfMessagesNotVisible].reduce(
        (sum, count) => sum + Number(count ?? 0),
        0,
      );
    } catch (error) {
      if (/NonExistentQueue|QueueDoesNotExist/.test(asError(error).name)) return undefined;
      throw error;
    }
  }
}

/** A notice without its attempts; any other message unchanged. @returns undefined for one of another target */
function bodyOf(body: string, target: string | undefined): string | undefined {
  try {
    const { notice }: { readonly notice?: { readonly target?: unknown } } = Object(JSON.parse(body));
    if (notice === undefined) return target === undefined ? body : undefined;
    return target === undefined || notice.target === target ? JSON.stringify({ notice }) : undefined;
  } catch {
    return target === undefined ? body : undefined;
  }
}
