/**
 * In: a queue. Out: it drained by the event-source poller and the batch function, and how much memory was alive then.
 * Trap: resident memory holds garbage too, as much as the collector allows; so it is collected before each look, and
 * what is left is what the process needs.
 */
import type { SQSEvent } from 'aws-lambda';
import { openSqs } from '../../lib/queue/sender.ts';
import { startPoller } from '../../local/event-source/poller.ts';
import { spreadOf } from '../measure.ts';
import type { BenchModel } from '../models.ts';
import { QUIET } from '../quiet.ts';
import { serve } from '../served.ts';
import { serveParent } from './child.ts';

export interface PollerQuestion {
  readonly model: BenchModel;
  readonly redisUrl: string;
  readonly queueUrl: string;
  readonly endpoint: string;
  readonly region: string;
  readonly records: number;
}

export interface PollerAnswer {
  /** Alive while the queue empties, the median of the looks. */
  readonly liveBytes: number;
  /** The most that was resident, garbage included. */
  readonly residentBytes: number;
}

const BATCH = 10;
/** Looks in one drain. */
const LOOKS = 8;
/** Short, so that a batch which Redis was too busy to take comes back soon. */
const FUNCTION_TIMEOUT_MS = 5_000;
const DRAIN_LIMIT_MS = 90_000;

/** Twice: what holds memory outside the heap lets go of it a turn after it was collected. */
async function liveBytes(): Promise<number> {
  const { gc } = globalThis as { gc?: () => void };
  if (!gc) throw new Error('started without --expose-gc');
  for (let pass = 0; pass < 2; pass++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function drain(question: PollerQuestion): Promise<PollerAnswer> {
  const { model, redisUrl, queueUrl, endpoint, region, records } = question;
  const served = serve(model, redisUrl, BATCH);
  let done = 0;
  const looks: number[] = [];
  const finished = Promise.withResolvers<void>();
  const handler = async (event: SQSEvent) => {
    const response = await served.batch(event);
    const looksBefore = Math.floor((done * LOOKS) / records);
    done += event.Records.length - response.batchItemFailures.length;
    if (Math.floor((done * LOOKS) / records) > looksBefore) looks.push(await liveBytes());
    if (done >= records) finished.resolve();
    return response;
  };
  const sqs = openSqs({ endpoint, region });
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
  return { liveBytes: spreadOf(looks).median, residentBytes: process.resourceUsage().maxRSS * 1024 };
}

if (process.send) serveParent((question) => drain(question as PollerQuestion));
