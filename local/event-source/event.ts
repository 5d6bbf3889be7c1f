/**
 * Builds the records of a Lambda SQS event and reads from the response which messages failed. With
 * ReportBatchItemFailures an invalid response (an unknown or empty id, a wrong key, not a list) fails the whole
 * batch, while an empty response is a success.
 */
import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { SQSMessageAttribute, SQSRecord } from 'aws-lambda';

export interface QueueFacts {
  readonly arn: string;
  readonly region: string;
}

export function toRecord(message: Message, queue: QueueFacts): SQSRecord {
  const record: SQSRecord = {
    messageId: message.MessageId ?? '',
    receiptHandle: message.ReceiptHandle ?? '',
    body: message.Body ?? '',
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '0',
      SenderId: '',
      ApproximateFirstReceiveTimestamp: '0',
      ...message.Attributes,
    },
    messageAttributes: Object.fromEntries(
      Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [name, toAttribute(value)]),
    ),
    md5OfBody: message.MD5OfBody ?? '',
    eventSource: 'aws:sqs',
    eventSourceARN: queue.arn,
    awsRegion: queue.region,
  };
  if (message.MD5OfMessageAttributes !== undefined) {
    record.md5OfMessageAttributes = message.MD5OfMessageAttributes;
  }
  return record;
}

function toAttribute(value: MessageAttributeValue): SQSMessageAttribute {
  const attribute: SQSMessageAttribute = {
    stringListValues: [],
    binaryListValues: [],
    dataType: value.DataType ?? 'String',
  };
  if (value.StringValue !== undefined) attribute.stringValue = value.StringValue;
  if (value.BinaryValue !== undefined)
    attribute.binaryValue = Buffer.from(value.BinaryValue).toString('base64');
  return attribute;
}

type Verdict =
  | { readonly kind: 'answered'; readonly failedIds: ReadonlySet<string> }
  /** The response is invalid, so every message failed. */
  | { readonly kind: 'broken'; readonly problem: string };

export function judge(result: unknown, messageIds: ReadonlySet<string>): Verdict {
  const nothingFailed: Verdict = { kind: 'answered', failedIds: new Set() };
  if (result === undefined || result === null) return nothingFailed;
  if (typeof result !== 'object' || Array.isArray(result))
    return broken('the result is not an object', result);
  const failures: unknown = 'batchItemFailures' in result ? result.batchItemFailures : undefined;
  if (failures === undefined || failures === null) return nothingFailed;
  if (!Array.isArray(failures)) return broken('batchItemFailures is not a list', failures);
  const failedIds = new Set<string>();
  for (const failure of failures) {
    const id: unknown = Object(failure).itemIdentifier;
    if (typeof id !== 'string' || id === '') return broken('a failure has no itemIdentifier', failure);
    if (!messageIds.has(id)) return broken('itemIdentifier is not a message of this batch', id);
    failedIds.add(id);
  }
  return { kind: 'answered', failedIds };
}

function broken(problem: string, value: unknown): Verdict {
  const text = JSON.stringify(value) ?? String(value);
  return { kind: 'broken', problem: `${problem}: ${text.length <= 120 ? text : `${text.slice(0, 120)}...`}` };
}
