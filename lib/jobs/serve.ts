/**
 * The function of jobs over files: events of S3 about what was dropped in `in/`, and messages that jobs send themselves. A message is
 * acknowledged once what it asks for is in S3, so that a function which is killed at any moment does it again.
 */
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { badRequest, ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import { deadlineCheck, deadlineOf, type InvocationClock } from '../pipeline/deadline.ts';
import { begin } from './begin.ts';
import { merge } from './merge.ts';
import { plan } from './plan.ts';
import { keysOf } from './request.ts';
import { type Delivery, refusalOf, runRows, STOPS, type Stop } from './run.ts';
import type { JobDeps, Message } from './store.ts';
import { watch } from './watch.ts';

/** How long it may take until a function knows that a job does not go on. */
const STOP_MS = 2_000;
/** Deliveries after which an error of no kind that is known ends the job. */
const MOST_FAILURES = 20;

export type { JobDeps };

export const serveJobs =
  (deps: JobDeps) =>
  async ({ Records }: SQSEvent, clock?: InvocationClock): Promise<SQSBatchResponse> => {
    const again: string[] = [];
    for (const record of Records) {
      try {
        await serveMessage(record, deps, clock);
      } catch (error) {
        logError(error, { messageId: record.messageId });
        again.push(record.messageId);
      }
    }
    return { batchItemFailures: again.map((itemIdentifier) => ({ itemIdentifier })) };
  };

async function serveMessage(
  record: SQSRecord,
  deps: JobDeps,
  clock: InvocationClock | undefined,
): Promise<void> {
  const message: Message & { readonly Records?: unknown; readonly Event?: unknown } = JSON.parse(record.body);
  // S3 sends it once, when it is notified of the queue.
  if (message.Event === 's3:TestEvent') return;
  if (Array.isArray(message.Records)) {
    for (const key of message.Records.map(keyOfEvent)) {
      const failed = await begin(key, deps);
      if (failed) await fail(failed.id, failed.error, deps);
    }
    return;
  }
  const stop = stopOf(message.id, deps);
  const stopped = await stop();
  // A merge that comes again removes parts that are left.
  const isLeft = stopped === 'done' && message.do === 'merge';
  if (stopped && !isLeft && !refusalOf(message.id, stopped)) return;
  const attempts = Number(record.attributes.ApproximateReceiveCount);
  const delivery: Delivery = { deadline: deadlineOf(clock), attempts, stop };
  try {
    await serve(message, deps, delivery);
  } catch (error) {
    const known = error instanceof ServingError ? !error.retryable && error.code !== 'internal' : false;
    if (!known && attempts < MOST_FAILURES) throw error;
    await fail(message.id, ServingError.from(error), deps);
  }
}

async function serve(message: Message, deps: JobDeps, delivery: Delivery): Promise<void> {
  const isOver = deadlineCheck(delivery.deadline.remainingMs);
  if (message.do === 'watch') {
    const next = await watch(message, deps, delivery.attempts);
    if (next) await deps.send(next.message, next.delaySeconds);
    return;
  }
  const rest = await workOf(message, deps, delivery, isOver);
  if (rest) await deps.send(rest);
}

function workOf(
  message: Exclude<Message, { do: 'watch' }>,
  deps: JobDeps,
  delivery: Delivery,
  isOver: () => boolean,
) {
  if (message.do === 'plan') return plan(message, deps, isOver);
  if (message.do === 'run') return runRows(message, deps, delivery);
  if (message.do === 'merge') return merge(message, deps, isOver);
  throw badRequest('a message of jobs over files: expected an event of S3, or {"do", "id"}');
}

/** S3 escapes a key as a form does. */
function keyOfEvent(record: unknown): string {
  const { s3 }: { readonly s3?: { readonly object?: { readonly key?: unknown } } } = Object(record);
  const key = s3?.object?.key;
  if (typeof key !== 'string') throw badRequest('an event of S3 without a key');
  return decodeURIComponent(key.replaceAll('+', ' '));
}

/** Why a job does not go on: an object says so. */
function stopOf(id: string, { job, bucket, store, observers }: JobDeps): () => Promise<Stop | undefined> {
  const keys = keysOf(job, id);
  let askedMs = Number.NEGATIVE_INFINITY;
  let stop: Stop | undefined;
  return async () => {
    if (stop || observers.now() - askedMs < STOP_MS) return stop;
    askedMs = observers.now();
    for await (const page of store.pages({ bucket, key: keys.stops })) {
      stop = STOPS.find((one) => page.some(({ key }) => key === keys[one]));
      break;
    }
    return stop;
  };
}

/** The parts of the job stay, and its output stays empty. */
async function fail(id: string, error: ServingError, { job, store, now }: JobDeps): Promise<void> {
  logError(error, { fileJob: id });
  const { code, publicMessage } = error;
  await store.put(keysOf(job, id).failed, JSON.stringify({ error: publicMessage, code, atMs: now() }));
}
