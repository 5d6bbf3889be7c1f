/**
 * Dumps Redis and S3 in the format of stored.ts. What differs between runs is normalised: random ids are numbered in the
 * order of their creation, times become STORED_AT, and what is left of a time to live is rounded up to its full length.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { GetObjectCommand, ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import type { APIGatewayProxyEventV2, SQSRecord } from 'aws-lambda';
import type { Redis } from 'ioredis';
import {
  type Moment,
  recordsOf,
  STORED_AT,
  type StoredEvent,
  type StoredKey,
  type StoredObject,
} from '../stored.ts';

const UUID = /[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}/g;

/** Replaces random ids by numbered ones. */
export class Ids {
  readonly #known = new Map<string, string>();

  /** Numbers the ids of a text. Call it in the order in which ids are created. */
  learn(text: string): void {
    for (const [id] of text.matchAll(UUID)) {
      if (this.#known.has(id)) continue;
      const number = String(this.#known.size + 1).padStart(12, '0');
      this.#known.set(id, `00000000-0000-4000-8000-${number}`);
    }
  }

  /** @throws for an id that was not learned, because its number would be arbitrary */
  fixed(text: string): string {
    return text.replaceAll(UUID, (id) => {
      const known = this.#known.get(id) ?? [...this.#known.values()].find((other) => other === id);
      if (known === undefined) throw new Error(`unknown id ${id} in ${text.slice(0, 200)}`);
      return known;
    });
  }
}

/** Up to a whole second, or a whole minute from one minute on. */
function rounded(ms: number): number {
  const step = Math.abs(ms) < 60_000 ? 1_000 : 60_000;
  return Math.ceil(ms / step) * step;
}

export async function dumpKey(redis: Redis, key: string, ids: Ids): Promise<StoredKey> {
  const [type, ttl, [seconds, micros]] = await Promise.all([redis.type(key), redis.pttl(key), redis.time()]);
  const nowMs = Number(seconds) * 1000 + Number(micros) / 1000;
  const moment = (time: string): Moment => ({ inMs: rounded(Number(time) - nowMs) });
  const head = { key: ids.fixed(key), ...(ttl < 0 ? {} : { ttlMs: rounded(ttl) }) };
  if (type === 'hash') {
    const fields = Object.entries(await redis.hgetall(key)).sort(([a], [b]) => (a < b ? -1 : 1));
    return {
      ...head,
      type,
      fields: Object.fromEntries(fields.map(([name, value]) => [name, field(name, value)])),
    };
  }
  if (type === 'zset') {
    const flat = await redis.zrange(key, '0', '-1', 'WITHSCORES');
    const members = flat.flatMap((member, i) =>
      i % 2 === 0 ? [[member, moment(flat[i + 1] as string)] as const] : [],
    );
    return { ...head, type, members: members.sort(([a], [b]) => (a < b ? -1 : 1)) };
  }
  if (type !== 'string') throw new Error(`${key} is a ${type}`);
  const text = (await redis.get(key)) as string;
  return { ...head, type, value: isTime(text) ? moment(text) : fixedText(text, ids) };

  function field(name: string, value: string): string | Moment {
    switch (name) {
      // The function's timeout, or the longer time of make/states.ts.
      case 'running':
        return { inMs: Math.max(30_000, moment(value).inMs) };
      // The job's first measurement, an hour before the data is loaded.
      case 'since':
        return { inMs: -3_600_000 };
      case 'finishedAt':
        return String(STORED_AT);
      // A duration, in ms.
      case 'left':
        return String(rounded(Number(value)));
      default:
        return isTime(value) ? moment(value) : fixedText(value, ids);
    }
  }
}

const isTime = (text: string) => /^\d{13}(\.\d+)?$/.test(text);

/** Also the time in an order (lib/results/order.ts): ids are numbered as they were sent, so the order stays what it was. */
function fixedText(text: string, ids: Ids): string {
  return ids.fixed(text).replace(/^\d{13} (?=\S)/, `${STORED_AT} `);
}

export async function dumpRedis(redis: Redis, ids: Ids): Promise<StoredKey[]> {
  const keys = await redis.keys('*');
  const stored = await Promise.all(keys.map((key) => dumpKey(redis, key, ids)));
  return stored.sort((a, b) => (a.key < b.key ? -1 : 1));
}

export async function dumpBucket(s3: S3Client, bucket: string, ids: Ids): Promise<StoredObject[]> {
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }));
  const stored = await Promise.all(
    Contents.map(async ({ Key = '' }): Promise<StoredObject> => {
      const { Body, ContentType } = await s3.send(new GetObjectCommand({ Bucket: bucket, Key }));
      const bytes = Buffer.from((await Body?.transformToByteArray()) ?? []);
      const head = { key: ids.fixed(Key), ...(ContentType ? { contentType: ContentType } : {}) };
      if (Key.endsWith('.onnx')) return { ...head, base64: bytes.toString('base64') };
      const text = bytes.toString().replaceAll(/"sentAt":\d+/g, `"sentAt":${STORED_AT}`);
      return { ...head, text: ids.fixed(text) };
    }),
  );
  return stored.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** An event as the function received it. @throws when `recordsOf` would not restore it exactly */
export function storedEvent(
  { name, job, function: functionName }: Pick<StoredEvent, 'name' | 'job' | 'function'>,
  records: readonly SQSRecord[],
  ids: Ids,
): StoredEvent {
  const fixed = records.map((record) => fixedRecord(record, ids));
  const event = {
    name,
    job,
    function: functionName,
    queue: fixed[0]?.eventSourceARN ?? '',
    records: fixed.map(({ messageId, body, attributes, messageAttributes }) => {
      const texts = Object.entries(messageAttributes).map(([key, { stringValue = '' }]) => [
        key,
        stringValue,
      ]);
      const deliveries = attributes.ApproximateReceiveCount;
      return { messageId, body, deliveries, texts: Object.fromEntries(texts) as Record<string, string> };
    }),
  };
  assert.deepEqual(recordsOf(event), fixed);
  return event;
}

function fixedRecord(record: SQSRecord, ids: Ids): SQSRecord {
  const body = ids.fixed(record.body);
  const messageId = ids.fixed(record.messageId);
  const {
    SentTimestamp: _sent,
    SequenceNumber: _number,
    ApproximateFirstReceiveTimestamp: _first,
    ...attributes
  } = record.attributes;
  const { md5OfMessageAttributes: _md5, ...rest } = record;
  return {
    ...rest,
    messageAttributes: JSON.parse(
      ids.fixed(JSON.stringify(record.messageAttributes)),
    ) as typeof record.messageAttributes,
    messageId,
    body,
    receiptHandle: `receipt of ${messageId}`,
    md5OfBody: createHash('md5').update(body).digest('hex'),
    attributes: {
      ...attributes,
      SentTimestamp: String(STORED_AT),
      ApproximateFirstReceiveTimestamp: String(STORED_AT + 20),
    },
  };
}

/** A request as the function received it, without what depends on the machine. */
export function fixedRequest(event: APIGatewayProxyEventV2): APIGatewayProxyEventV2 {
  const { 'accept-language': _language, 'sec-fetch-mode': _mode, ...headers } = event.headers;
  return {
    ...event,
    headers: {
      ...headers,
      host: 'localhost:8080',
      'user-agent': 'node',
      'x-amzn-trace-id': `Root=1-${(STORED_AT / 1000).toString(16)}-000000000000000000000000`,
      'x-forwarded-port': '8080',
    },
    requestContext: {
      ...event.requestContext,
      domainName: 'localhost',
      domainPrefix: 'localhost',
      requestId: 'upgrade000000001=',
      time: '15/Jan/2026:12:00:00 +0000',
      timeEpoch: STORED_AT,
      http: { ...event.requestContext.http, userAgent: 'node' },
    },
  };
}
