/**
 * Does what Lambda's event source does with a queue and a handler, one step at a time: receive, invoke, delete the
 * successful messages, let the others come again. Instead of waiting for a visibility timeout it ends it, so that a
 * hundred redeliveries do not take minutes; everything else is the real protocol.
 */
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { judge, toRecord } from '../../../local/event-source/event.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { record } from './model.ts';

const PER_CALL = 10;
const FACTS = { arn: 'arn:aws:sqs:us-east-1:000000000000:faults', region: 'us-east-1' };

/** A message that no queue has seen, for events that are made by hand. */
export function sqsRecord(messageId: string, body: string, sentAt = Date.now()): SQSRecord {
  const Attributes = { SentTimestamp: String(sentAt), ApproximateReceiveCount: '1' };
  return toRecord({ MessageId: messageId, ReceiptHandle: messageId, Body: body, Attributes }, FACTS);
}

/** `r-<x>` as message `m-<x>`, for each number. */
export async function eventOf(numbers: readonly number[]): Promise<SQSEvent> {
  const records = numbers.map(async (x) =>
    sqsRecord(`m-${x}`, encodeMessage(`r-${x}`, await toInputs(record(x)))),
  );
  return { Records: await Promise.all(records) };
}

export interface Source {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
}

/** Up to `most` messages that are there now. */
export async function receive({ sqs, queueUrl }: Source, most: number): Promise<SQSRecord[]> {
  const records: SQSRecord[] = [];
  while (records.length < most) {
    const reply = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: Math.min(PER_CALL, most - records.length),
        WaitTimeSeconds: 0,
        MessageSystemAttributeNames: ['All'],
        MessageAttributeNames: ['All'],
      }),
    );
    const messages = reply.Messages ?? [];
    records.push(...messages.map((message) => toRecord(message, FACTS)));
    if (messages.length === 0) break;
  }
  return records;
}

export async function remove({ sqs, queueUrl }: Source, records: readonly SQSRecord[]): Promise<void> {
  for (let i = 0; i < records.length; i += PER_CALL) {
    const Entries = records
      .slice(i, i + PER_CALL)
      .map(({ receiptHandle }, id) => ({ Id: String(id), ReceiptHandle: receiptHandle }));
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  }
}

/** Ends the visibility of these messages: they come again, counted. */
export async function expire({ sqs, queueUrl }: Source, records: readonly SQSRecord[]): Promise<void> {
  for (let i = 0; i < records.length; i += PER_CALL) {
    const Entries = records.slice(i, i + PER_CALL).map(({ receiptHandle }, id) => ({
      Id: String(id),
      ReceiptHandle: receiptHandle,
      VisibilityTimeout: 0,
    }));
    await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }));
  }
}

/** Messages in the queue, in flight or not. */
export async function count({ sqs, queueUrl }: Source): Promise<number> {
  const { Attributes = {} } = await sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['All'] }),
  );
  return (
    Number(Attributes['ApproximateNumberOfMessages']) +
    Number(Attributes['ApproximateNumberOfMessagesNotVisible'])
  );
}

export type Handler = (event: SQSEvent) => Promise<SQSBatchResponse>;

/** Which of these records are done, by the rules of Lambda: none when the handler throws or answers nonsense. */
export async function invoke(handler: Handler, records: readonly SQSRecord[]): Promise<readonly SQSRecord[]> {
  const ids = new Set(records.map(({ messageId }) => messageId));
  try {
    const verdict = judge(await handler({ Records: [...records] }), ids);
    if (verdict.kind === 'broken') return [];
    return records.filter(({ messageId }) => !verdict.failedIds.has(messageId));
  } catch {
    return [];
  }
}

/** Delivers until the queue is empty. @throws when something is left after `most` deliveries of whole batches */
export async function deliverAll(
  source: Source,
  handler: Handler,
  options: { readonly batchSize?: number; readonly most?: number } = {},
): Promise<void> {
  const { batchSize = 10, most = 1_000 } = options;
  for (let delivered = 0; delivered < most; delivered++) {
    const records = await receive(source, batchSize);
    if (records.length === 0) {
      const left = await count(source);
      if (left > 0) throw new Error(`${left} messages are left and not visible`);
      return;
    }
    const done = await invoke(handler, records);
    await remove(source, done);
    await expire(
      source,
      records.filter((message) => !done.includes(message)),
    );
  }
  throw new Error(`the queue is not empty after ${most} deliveries`);
}
