/**
 * Turns an SQS event into one result per record in the store and returns the messages that SQS should deliver again.
 * Results are written before the response: after a crash in between the batch is delivered again, and a redelivered
 * record changes nothing.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { composeBatch, type EndingsOf } from '../lib/compose/batch.ts';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { ServingError } from '../lib/contract/errors.ts';
import type { Model } from '../lib/contract/values.ts';
import { ageLimit, chunksOf, type Payloads } from '../lib/pipeline/chunks.ts';
import { deadlineOf, type InvocationClock } from '../lib/pipeline/deadline.ts';
import type { Observers } from '../lib/pipeline/observer.ts';
import { queueSteps, type RunningReports, type Sink, serveQueue } from '../lib/pipeline/serve.ts';

export interface BatchDeps {
  readonly model: Model;
  readonly sink: Sink;
  readonly running: RunningReports;
  /** The store of records that are too large for a message. */
  readonly payloads: Payloads;
  readonly observers: Observers;
  /** How records of an event end that ran too often. Default: none does. */
  readonly endings?: EndingsOf;
  /** Records that waited longer are not run. Default 0: none is too old. */
  readonly recordTtlSeconds?: number;
  /** Wall clock in ms, for how long a record waited in the queue. Default Date.now. */
  readonly now?: () => number;
}

export const batch =
  ({ model, endings, recordTtlSeconds = 0, now = Date.now, payloads, ...parts }: BatchDeps) =>
  async ({ Records }: SQSEvent, clock?: InvocationClock): Promise<SQSBatchResponse> => {
    const deadline = deadlineOf(clock);
    const { observers } = parts;
    for (const { attributes } of Records) {
      const tookMs = Math.max(0, now() - Number(attributes.SentTimestamp));
      observers.stepEnded?.({ step: 'wait', tookMs });
    }
    try {
      return failures(
        await model.use((runner) => {
          const steps = queueSteps({ ...parts, runner, deadline, ...endings?.(Records) });
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

export const handler = lambdaHandler('sqs', batch, composeBatch);
