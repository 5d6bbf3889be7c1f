/**
 * In: the files of a point's events. Out: the batch function as the work of that point, with a Redis of its own.
 * Trap: the first result of a uri stays and is cheaper to write again; so Redis is emptied before each call. The event
 * counts as memory from its text on: both are there on Lambda too.
 */
import { readFile } from 'node:fs/promises';
import type { SQSEvent } from 'aws-lambda';
import { Redis } from 'ioredis';
import { type Served, serve } from '../served.ts';
import type { Work } from './curve.ts';
import { modelOf } from './models.ts';
import type { PointQuestion } from './point.ts';

interface BatchPoint {
  readonly served: Served;
  readonly redis: Redis;
  readonly work: Work;
}

/** @param given `event`, and `warm` where the smallest size is another; `endpoint` of an S3, where records lie in one */
export function openBatch(given: PointQuestion['given'], runRows: number): BatchPoint {
  const { event: path = '', warm = path, redisUrl = '', endpoint } = given;
  const served = serve(modelOf(given), redisUrl, runRows, endpoint);
  const redis = new Redis(redisUrl);
  let event: SQSEvent | undefined;
  const work: Work = {
    warmUp: async () => {
      await redis.flushdb();
      await runEvent(served, await readEvent(warm));
    },
    prepare: async () => {
      await redis.flushdb();
      event = await readEvent(path);
    },
    call: () => runEvent(served, event as SQSEvent),
    release: () => {
      event = undefined;
    },
    close: async () => {
      redis.disconnect();
      await served.close();
    },
  };
  return { served, redis, work };
}

export async function readEvent(path: string): Promise<SQSEvent> {
  return JSON.parse(await readFile(path, 'utf8')) as SQSEvent;
}

/** @throws when a record comes back */
export async function runEvent({ batch }: Served, event: SQSEvent): Promise<void> {
  const { batchItemFailures } = await batch(event);
  if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records came back`);
}
