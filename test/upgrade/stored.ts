/**
 * The data that a version leaves in Redis, S3 and SQS, and its loading into servers. Times are relative: a key that had
 * a day to live when it was stored has a day to live when it is loaded.
 */
import { createHash } from 'node:crypto';
import {
  DeleteObjectsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import type { APIGatewayProxyEventV2, SQSRecord } from 'aws-lambda';
import type { Redis } from 'ioredis';
import type { FunctionName } from './code.ts';

/** A moment, in ms from now by the clock of Redis. */
export interface Moment {
  readonly inMs: number;
}

export type StoredKey = {
  readonly key: string;
  /** The rest of its time to live; absent for a key without one. */
  readonly ttlMs?: number;
} & (
  | { readonly type: 'hash'; readonly fields: Readonly<Record<string, string | Moment>> }
  | { readonly type: 'zset'; readonly members: readonly (readonly [member: string, score: Moment])[] }
  | { readonly type: 'string'; readonly value: string | Moment }
);

export interface StoredObject {
  readonly key: string;
  readonly contentType?: string;
  readonly text?: string;
  /** Instead of `text`, if the object is not text. */
  readonly base64?: string;
}

/** Messages as Lambda's event source hands them to a function; `recordsOf` makes them whole. */
export interface StoredEvent {
  readonly name: string;
  readonly job: string;
  readonly function: 'batch' | 'dead-letter';
  /** ARN of the queue. */
  readonly queue: string;
  readonly records: readonly {
    readonly messageId: string;
    readonly body: string;
    /** ApproximateReceiveCount. */
    readonly deliveries: string;
    /** Its message attributes, which are texts. */
    readonly texts: Readonly<Record<string, string>>;
  }[];
}

/** When every stored message was sent, and every stored result was finished. */
export const STORED_AT = Date.UTC(2026, 0, 15, 12);

/** The records of an event, with what is the same in all of them. */
export function recordsOf({ queue, records }: StoredEvent): SQSRecord[] {
  return records.map(({ messageId, body, deliveries, texts }) => ({
    messageId,
    receiptHandle: `receipt of ${messageId}`,
    body,
    attributes: {
      ApproximateReceiveCount: deliveries,
      SentTimestamp: String(STORED_AT),
      SenderId: '000000000000',
      ApproximateFirstReceiveTimestamp: String(STORED_AT + 20),
    },
    messageAttributes: attributesOf(texts),
    md5OfBody: createHash('md5').update(body).digest('hex'),
    eventSource: 'aws:sqs',
    eventSourceARN: queue,
    awsRegion: 'local',
  }));
}

function attributesOf(texts: Readonly<Record<string, string>>): SQSRecord['messageAttributes'] {
  const attributes: SQSRecord['messageAttributes'] = {};
  for (const [name, stringValue] of Object.entries(texts))
    attributes[name] = { stringValue, dataType: 'String', stringListValues: [], binaryListValues: [] };
  return attributes;
}

/** A request as API Gateway hands it to a function. */
export interface StoredRequest {
  readonly name: string;
  readonly job: string;
  readonly function: FunctionName;
  readonly event: APIGatewayProxyEventV2;
}

export interface Stored {
  readonly redis: readonly StoredKey[];
  readonly objects: readonly StoredObject[];
  readonly events: readonly StoredEvent[];
  readonly requests: readonly StoredRequest[];
  readonly facts: {
    /** Id of the one lease in Redis. */
    readonly leaseId: string;
    /** Model versions, such as `line 2`. */
    readonly versions: Readonly<Record<string, string>>;
  };
}

/** Replaces everything in Redis. */
export async function loadRedis(redis: Redis, keys: readonly StoredKey[]): Promise<void> {
  const [seconds, micros] = await redis.time();
  const nowMs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  const text = (value: string | Moment) => (typeof value === 'string' ? value : String(nowMs + value.inMs));
  const commands = redis.multi().flushall();
  for (const stored of keys) {
    const { key, ttlMs } = stored;
    if (stored.type === 'hash') {
      commands.hset(key, ...Object.entries(stored.fields).flatMap(([name, value]) => [name, text(value)]));
    } else if (stored.type === 'zset') {
      commands.zadd(key, ...stored.members.flatMap(([member, score]) => [text(score), member]));
    } else commands.set(key, text(stored.value));
    if (ttlMs !== undefined) commands.pexpire(key, ttlMs);
  }
  for (const [error] of (await commands.exec()) ?? []) if (error) throw error;
}

/** Replaces everything in the bucket. */
export async function loadBucket(
  s3: S3Client,
  bucket: string,
  objects: readonly StoredObject[],
): Promise<void> {
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }));
  const wanted = new Set(objects.map(({ key }) => key));
  const surplus = Contents.flatMap(({ Key }) => (Key === undefined || wanted.has(Key) ? [] : [{ Key }]));
  if (surplus.length > 0)
    await s3.send(new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects: surplus, Quiet: true } }));
  await Promise.all(
    objects.map(({ key, contentType, text, base64 = '' }) => {
      const Body = text ?? Buffer.from(base64, 'base64');
      return s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body, ContentType: contentType }));
    }),
  );
}
