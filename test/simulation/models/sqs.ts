/**
 * The model of an SQS queue with its weaknesses: messages come in any order and more than once, a delete may not count, and
 * a message that was received too often goes to the dead letters.
 */
import { createHash } from 'node:crypto';
import type { Choices } from '../machine/random.ts';
import { awsError } from './aws.ts';

export interface Attribute {
  readonly DataType: string;
  readonly StringValue?: string;
}

export interface QueueMessage {
  readonly id: string;
  readonly body: string;
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** In ms since 1970. */
  readonly sentAt: number;
  readonly groupId: string | undefined;
  receives: number;
  firstReceivedAt: number;
  /** In ms since 1970: hidden until then. */
  visibleAt: number;
  receipt: string;
}

export interface QueueOptions {
  readonly name: string;
  readonly visibilityMs: number;
  readonly retentionMs: number;
  /** Receives before a message goes to the dead letters. */
  readonly maxReceives?: number;
  readonly deadLetters?: SqsQueue;
}

const ENTRIES = 10;
const MESSAGE_BYTES = 1024 * 1024;

export class SqsQueue {
  readonly messages = new Map<string, QueueMessage>();
  readonly options: QueueOptions;
  readonly #choices: Choices;
  readonly #now: () => number;
  /** Called when a message came, or will be visible again. */
  onChange: () => void = () => undefined;
  #sent = 0;

  /** @param now in ms since 1970, of SQS's clock */
  constructor(options: QueueOptions, choices: Choices, now: () => number) {
    this.options = options;
    this.#choices = choices;
    this.#now = now;
  }

  /** @param delayMs before it can be received */
  add(body: string, attributes: QueueMessage['attributes'], groupId?: string, delayMs = 0): QueueMessage {
    const sentAt = Math.floor(this.#now());
    const id = `${this.options.name}-${String(++this.#sent).padStart(4, '0')}`;
    const message: QueueMessage = {
      id,
      body,
      attributes,
      sentAt,
      groupId,
      receives: 0,
      firstReceivedAt: 0,
      visibleAt: sentAt + delayMs,
      receipt: '',
    };
    this.messages.set(id, message);
    this.onChange();
    return message;
  }

  /** Up to `most` of the visible messages, in any order. */
  receive(most: number): QueueMessage[] {
    this.#expire();
    const now = this.#now();
    const visible = [...this.messages.values()].filter(({ visibleAt }) => visibleAt <= now);
    const mixed = this.#choices.shuffled(`${this.options.name} order`, visible).slice(0, most);
    return mixed.flatMap((message) => {
      const { maxReceives, deadLetters } = this.options;
      if (maxReceives !== undefined && message.receives >= maxReceives) {
        this.messages.delete(message.id);
        deadLetters?.adopt(message);
        return [];
      }
      message.receives++;
      if (message.receives === 1) message.firstReceivedAt = Math.floor(now);
      message.visibleAt = now + this.options.visibilityMs;
      message.receipt = `${message.id}/${message.receives}`;
      return [{ ...message }];
    });
  }

  /** A message that another queue gave up keeps its id and the time at which it was sent. */
  adopt(message: QueueMessage): void {
    this.messages.set(message.id, { ...message, receives: 0, visibleAt: this.#now() });
    this.onChange();
  }

  /** With the receipt of an earlier receive it may not count. */
  remove({ id, receipt }: Pick<QueueMessage, 'id' | 'receipt'>): boolean {
    const message = this.messages.get(id);
    if (!message || message.receipt !== receipt) return false;
    return this.messages.delete(id);
  }

  /** When the next message can be received, in ms from now; undefined for none. */
  nextMs(): number | undefined {
    let next: number | undefined;
    for (const { visibleAt } of this.messages.values()) next = Math.min(next ?? visibleAt, visibleAt);
    return next === undefined ? undefined : Math.max(0, next - this.#now());
  }

  #expire(): void {
    const oldest = this.#now() - this.options.retentionMs;
    for (const [id, { sentAt }] of this.messages) if (sentAt < oldest) this.messages.delete(id);
  }

  /** SendMessageBatch. @param refuses whether this entry is refused for now @throws as the SDK does */
  sendBatch(
    input: {
      readonly Entries?: readonly {
        readonly Id?: string;
        readonly MessageBody?: string;
        readonly MessageAttributes?: Readonly<Record<string, Attribute>>;
        readonly MessageGroupId?: string;
        readonly DelaySeconds?: number;
      }[];
    },
    { refuses, delayMs }: { readonly refuses: () => boolean; readonly delayMs: () => number },
  ): object {
    const { Entries = [] } = input;
    if (Entries.length === 0) throw awsError('EmptyBatchRequest', 'There should be at least one entry.', 400);
    if (Entries.length > ENTRIES)
      throw awsError('TooManyEntriesInBatchRequest', 'Maximum number of entries per request are 10.', 400);
    const bytes = Entries.reduce((sum, { MessageBody = '' }) => sum + Buffer.byteLength(MessageBody), 0);
    if (bytes > MESSAGE_BYTES)
      throw awsError('BatchRequestTooLong', 'Batch requests cannot be longer than 1048576 bytes.', 400);
    const Successful: object[] = [];
    const Failed: object[] = [];
    for (const {
      Id,
      MessageBody = '',
      MessageAttributes = {},
      MessageGroupId,
      DelaySeconds = 0,
    } of Entries) {
      if (refuses()) {
        Failed.push({ Id, SenderFault: false, Code: 'InternalError', Message: 'try again' });
        continue;
      }
      const { id } = this.add(
        MessageBody,
        MessageAttributes,
        MessageGroupId,
        delayMs() + 1000 * DelaySeconds,
      );
      Successful.push({
        Id,
        MessageId: id,
        MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
      });
    }
    return { ...(Successful.length > 0 ? { Successful } : {}), ...(Failed.length > 0 ? { Failed } : {}) };
  }
}
