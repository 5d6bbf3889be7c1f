/**
 * An event of the queue as a whole: one result per record in the store, and the messages that SQS should deliver again.
 * Results are written before the response: after a crash in between the batch is delivered again, and a redelivered
 * record changes nothing.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { ServingError } from '../contract/errors.ts';
import type { Model } from '../contract/values.ts';
import { ageLimit, chunksOf, type Delivered, type Payloads } from './chunks.ts';
import { deadlineOf, type InvocationClock } from './deadline.ts';
import type { Observers } from './observer.ts';
import {
  type Endings,
  queueSteps,
  type RunningReports,
  type Sink,
  type StepParts,
  serveQueue,
} from './serve.ts';

export interface EventDeps {
  readonly model: Model;
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
  ({ model, endings, recordTtlSeconds = 0, now, payloads, ...parts }: EventDeps) =>
  async ({ Records }: SQSEvent, clock?: InvocationClock): Promise<SQSBatchResponse> => {
    const deadline = deadlineOf(clock);
    const { observers } = parts;
    for (const { attributes } of Records) {
      const tookMs = Math.max(0, now() - Number(attributes.SentTimestamp));
      observers.stepEnded?.({ step: 'wait', tookMs });
    }
    try {
      return failures(
        await withRunners(model, (runners) => {
          const steps = queueSteps({ ...parts, ...runners, deadline, ...endings?.(Records) });
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

/** Calls `work` with the runner that serves, and that of a canary while there is one. */
function withRunners<T>(
  model: Model,
  work: (runners: Pick<StepParts, 'runner' | 'canary'>) => Promise<T>,
): Promise<T> {
  const { canary } = model;
  if (!canary) return model.use((runner) => work({ runner }));
  const { takes } = canary;
  return model.use((runner) =>
    canary.model.use((other) => work({ runner, canary: { takes, runner: other } })),
  );
}

function failures(ids: readonly string[]): SQSBatchResponse {
  return { batchItemFailures: ids.map((id) => ({ itemIdentifier: id })) };
}
