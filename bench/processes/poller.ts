/** The poller and the batch function in a process of their own, which drains a queue and reads its live memory meanwhile. */
import type { SQSEvent } from 'aws-lambda';
import { peakMemory } from '../../lib/inference/peak-memory.ts';
import { openSqs } from '../../lib/queue/sender.ts';
import { startPoller } from '../../local/event-source/poller.ts';
import { spreadOf } from '../measure.ts';
import { liveBytes } from '../memory.ts';
import type { BenchModel } from '../models.ts';
import { QUIET } from '../quiet.ts';
import { serve } from '../served.ts';
import { serveParent } from './child.ts';

interface DrainQuestion {
  readonly model: BenchModel;
  readonly redisUrl: string;
  readonly queueUrl: string;
  readonly endpoint: string;
  readonly records: number;
}

const BATCH = 10;
/** Readings of the memory in one drain. */
const READINGS = 8;
/** Short, so that a batch that Redis was too busy for comes back soon. */
const FUNCTION_TIMEOUT_MS = 5_000;
const DRAIN_LIMIT_MS = 90_000;

/** @returns the median of what was live while the queue emptied, and the most that was resident, garbage included */
export async function drainQueue({ model, redisUrl, queueUrl, endpoint, records }: DrainQuestion) {
  const served = serve(model, redisUrl, { batchSize: BATCH });
  const live: number[] = [];
  let done = 0;
  const finished = Promise.withResolvers<void>();
  const handler = async (event: SQSEvent) => {
    const response = await served.batch(event);
    done += event.Records.length - response.batchItemFailures.length;
    // While the event is there: all of its memory is still in use.
    if (done >= (live.length * records) / READINGS) live.push(await liveBytes());
    if (done >= records) finished.resolve();
    return response;
  };
  const sqs = openSqs({ endpoint, region: 'local' });
  const poller = await startPoller({
    sqs,
    queueUrl,
    handler,
    functionName: 'batch',
    batchSize: BATCH,
    windowSeconds: 0,
    // The least that AWS allows.
    maximumConcurrency: 2,
    functionTimeoutMs: FUNCTION_TIMEOUT_MS,
    log: QUIET,
  });
  const limit = setTimeout(() => {
    finished.reject(new Error(`${done} of ${records} records were done after ${DRAIN_LIMIT_MS} ms`));
  }, DRAIN_LIMIT_MS);
  try {
    await finished.promise;
    await poller.idle();
  } finally {
    clearTimeout(limit);
    await poller.close();
    await served.close();
    sqs.destroy();
  }
  return { liveBytes: spreadOf(live).median, residentBytes: peakMemory() };
}

const methods = { drain: drainQueue };

export type PollerProcess = typeof methods;

if (import.meta.main) serveParent(methods);
