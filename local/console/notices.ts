/** The notices of a job on their way, by target: what waits, what was given up and why, who is paused, and how to begin again. */
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { NoticeFacts, TargetFacts } from '../../console/api.ts';
import { asError } from '../../lib/contract/errors.ts';
import { isNotice } from '../../lib/contract/notice.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import { OutboxReader } from '../../lib/s3/outbox-reader.ts';
import { PausedTargets } from '../../lib/s3/pauses.ts';

export interface NoticesOptions {
  readonly sqs: SQSClient;
  readonly s3: S3Client;
  readonly job: string;
  readonly bucket: string;
  /** The queue of notices, and its dead-letter queue. */
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
}

const MOST_COUNTED = 10_000;
/** Objects of the outbox that are read, and messages that are looked at, to know their targets. */
const MOST_OBJECTS = 10;
const MOST_LOOKED = 200;
/** The time for which messages that are counted are hidden from others. */
const LOOK_SECONDS = 30;
/** Those of other targets are hidden until all have been seen. */
const HIDDEN_SECONDS = 300;

interface Tally {
  waiting: number;
  givenUp: number;
  reason: string | undefined;
}

export class Notices {
  readonly #options: NoticesOptions;
  readonly #outbox: OutboxReader;
  readonly #pauses: PausedTargets;

  constructor(options: NoticesOptions) {
    const { s3, bucket, job } = options;
    this.#options = options;
    this.#outbox = new OutboxReader(s3, bucket, job);
    this.#pauses = new PausedTargets(s3, { bucket, job, now: () => performance.now() });
  }

  /** @returns undefined for a job without targets. @throws errors of AWS */
  async facts(): Promise<NoticeFacts | undefined> {
    const { queueUrl, deadLetterUrl } = this.#options;
    const waiting = await this.#count(queueUrl);
    if (waiting === undefined) return undefined;
    const keys: string[] = [];
    for await (const page of this.#outbox.pages()) {
      keys.push(...page.map(({ key }) => key));
      if (keys.length >= MOST_COUNTED) break;
    }
    const givenUp = (await this.#count(deadLetterUrl)) ?? 0;
    const paused = await this.#pauses.list();
    const tallies = new Map<string, Tally>();
    const tallyOf = (name: string) => {
      const tally = tallies.get(name) ?? { waiting: 0, givenUp: 0, reason: undefined };
      tallies.set(name, tally);
      return tally;
    };
    for (const name of paused) tallyOf(name);
    for (const key of keys.slice(0, MOST_OBJECTS))
      for (const { target } of (await this.#outbox.read(key)) ?? []) tallyOf(target).waiting++;
    if (givenUp > 0) await this.#look(tallyOf);
    const targets = Array.from(
      tallies,
      ([name, tally]): TargetFacts => ({ name, ...tally, isPaused: paused.includes(name) }),
    );
    return {
      waiting,
      outbox: keys.length,
      givenUp,
      paused,
      targets: targets.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    };
  }

  /** Looks at what was given up, and leaves it there. */
  async #look(tallyOf: (name: string) => Tally): Promise<void> {
    const seen = new Map<string, Message>();
    while (seen.size < MOST_LOOKED) {
      const messages = await this.#receive(LOOK_SECONDS, 0);
      const fresh = messages.filter(({ MessageId = '' }) => !seen.has(MessageId));
      for (const message of messages) seen.set(message.MessageId ?? '', message);
      if (fresh.length === 0) break;
    }
    for (const { Body = '' } of seen.values()) {
      const { notice, reason } = parsed(Body);
      if (!isNotice(notice)) continue;
      const tally = tallyOf(notice.target);
      tally.givenUp++;
      tally.reason ??= typeof reason === 'string' ? reason : undefined;
    }
    await this.#show(Array.from(seen.values(), ({ ReceiptHandle = '' }) => ReceiptHandle));
  }

  /**
   * Ends the pause of a target, or of all, and puts what was given up of it into the queue again, for another day.
   * @returns how many
   */
  async resume(target: string | undefined): Promise<number> {
    const { sqs, queueUrl: QueueUrl, deadLetterUrl } = this.#options;
    for (const name of await this.#pauses.list())
      if (target === undefined || name === target) await this.#pauses.resume(name);
    // A notice that is given up meanwhile waits for the next call.
    const most = (await this.#count(deadLetterUrl)) ?? 0;
    const others: string[] = [];
    let moved = 0;
    while (moved < most) {
      const messages = await this.#receive(HIDDEN_SECONDS, 1);
      if (messages.length === 0) break;
      for (const { Body = '', ReceiptHandle } of messages) {
        const again = bodyOf(Body, target);
        if (again === undefined) {
          others.push(ReceiptHandle ?? '');
          continue;
        }
        // Sent before it is deleted: what ends in between sends it twice, under one id.
        await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: again }));
        await sqs.send(new DeleteMessageCommand({ QueueUrl: deadLetterUrl, ReceiptHandle }));
        moved++;
      }
    }
    await this.#show(others);
    return moved;
  }

  async #receive(VisibilityTimeout: number, WaitTimeSeconds: number): Promise<readonly Message[]> {
    const QueueUrl = this.#options.deadLetterUrl;
    const ask = { QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout, WaitTimeSeconds };
    return (await this.#options.sqs.send(new ReceiveMessageCommand(ask))).Messages ?? [];
  }

  /** Makes hidden messages visible again. */
  async #show(receipts: readonly string[]): Promise<void> {
    const { sqs, deadLetterUrl: QueueUrl } = this.#options;
    for (const ReceiptHandle of receipts)
      await sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }));
  }

  async #count(QueueUrl: string): Promise<number | undefined> {
    try {
      const ask = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] });
      const { Attributes = {} } = await this.#options.sqs.send(ask);
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

function parsed(body: string): { readonly notice?: unknown; readonly reason?: unknown } {
  try {
    return Object(JSON.parse(body));
  } catch {
    return {};
  }
}

/** A notice without its attempts; any other message unchanged. @returns undefined for one of another target */
function bodyOf(body: string, target: string | undefined): string | undefined {
  const { notice } = parsed(body);
  const { target: own }: { readonly target?: unknown } = Object(notice);
  if (target !== undefined && own !== target) return undefined;
  return notice === undefined ? body : JSON.stringify({ notice });
}
