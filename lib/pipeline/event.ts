/**
 * An event of the queue as a whole: one result per record in the store, and the messages that SQS should deliver again.
 * Results are written before the response: after a crash in between the batch is delivered again, and a redelivered
 * record changes nothing.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { enqueueOf } from '../codecs/attributes.ts';
import type { Enqueue } from '../contract/enqueue.ts';
import { ServingError } from '../contract/errors.ts';
import type { Model } from '../contract/values.ts';
import { ageLimit, chunksOf, type Delivered, type Payloads } from './chunks.ts';
import { deadlineOf, type InvocationClock } from './deadline.ts';
import type { NamedModels } from './named-models.ts';
import type { Observers } from './observer.ts';
import { type Endings, queueSteps, type RunningReports, type Sink, serveQueue } from './serve.ts';
import { NO_MODEL, withRunners } from './sides.ts';

export interface EventDeps {
  readonly model: Model;
  /** The name of the job, and of its own model. */
  readonly jobName?: string;
  /** Further models that records name. Default: there are none. */
  readonly further?: (() => Promise<NamedModels>) | undefined;
  readonly sink: Sink;
  readonly running: RunningReports;
  /** The store of records that are too large for a message. */
  readonly payloads: Payloads;
  readonly observers: Observers;
  /** Ends the records of an event that ran too often. Default: each runs as often as it is delivered. */
  readonly endings?: (delivered: readonly Delivered[]) => Endings;
  /** Records that waited longer are not run. Default 0: none is too old. */
  readonly recordTtlSeconds?: number;
  /** Wall clock in ms, for how long a record waited in the queue. */
  readonly now: () => number;
}

/** Serves events of SQS with these parts. */
export const serveEvent =
  ({ model, further, endings, recordTtlSeconds = 0, now, payloads, ...parts }: EventDeps) =>
  async ({ Records }: SQSEvent, clock?: InvocationClock): Promise<SQSBatchResponse> => {
    const deadline = deadlineOf(clock);
    const { observers } = parts;
    for (const { attributes } of Records) {
      const tookMs = Math.max(0, now() - Number(attributes.SentTimestamp));
      observers.stepEnded?.({ step: 'wait', tookMs });
    }
    const startedMs = now();
    const findModel = further && (async (name: string) => (await further()).find(name, startedMs));
    const isNamed = ({ model: name }: Enqueue) => name !== undefined && name !== parts.jobName;
    try {
      // The job's own model may be away, or none: records of others do not wait for it.
      const own = Records.every((record) => isNamed(enqueueOf(record))) ? NO_MODEL : model;
      return failures(
        await withRunners(own, (runners) => {
          const steps = queueSteps({ ...parts, ...runners, findModel, deadline, ...endings?.(Records) });
          const chunks = chunksOf(Records, payloads, deadline, ageLimit(recordTtlSeconds, now));
          return serveQueue(chunks, steps);
        }),
      );
    } catch (error) {
      // The model or the store is unavailable, so all messages are delivered again; results already written stay.
      observers.eventFailed?.({ error: ServingError.from(error), messages: Records.length });
      return failures(Records.map(({ messageId }) => messageId));
    }
  };

function failures(ids: readonly string[]): SQSBatchResponse {
  return { batchItemFailures: ids.map((id) => ({ itemIdentifier: id })) };
}
