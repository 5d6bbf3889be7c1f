/**
 * SQS event -> one result per record in Redis; answers with the messages that SQS shall deliver again. Results are
 * written before the answer: a crash in between delivers the batch again, and the first result of a uri stays.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { composeBatch } from '../lib/compose/batch.ts';
import { lambdaHandler } from '../lib/compose/handler.ts';
import type { ModelHost } from '../lib/inference/model-manager.ts';
import { tellFailedEvent } from '../lib/metrics/outcomes.ts';
import type { Reporter } from '../lib/metrics/reporter.ts';
import { measuredSteps } from '../lib/metrics/steps.ts';
import { chunksOf } from '../lib/pipeline/chunks.ts';
import { deadlineOf, type InvocationClock } from '../lib/pipeline/deadline.ts';
import type { Filter } from '../lib/pipeline/postprocess.ts';
import { queueSteps, serveQueue } from '../lib/pipeline/serve.ts';
import { resultSink } from '../lib/redis/result-sink.ts';
import type { ResultStore } from '../lib/redis/results.ts';
import type { RunningNews } from '../lib/redis/running.ts';
import type { PayloadStore } from '../lib/s3/payloads.ts';

export interface BatchDeps {
  readonly model: Pick<ModelHost, 'use'>;
  readonly results: Pick<ResultStore, 'save'>;
  readonly running: Pick<RunningNews, 'begin'>;
  /** Where records lie that are too large for a message. */
  readonly payloads: Pick<PayloadStore, 'resolve'>;
  readonly filter: Filter | undefined;
  readonly reporter: Reporter;
  /** Wall clock in ms, for how long a record waited in the queue. Default Date.now. */
  readonly now?: () => number;
}

export const batch =
  ({ model, results, running, payloads, filter, reporter, now = Date.now }: BatchDeps) =>
  async ({ Records }: SQSEvent, clock?: InvocationClock): Promise<SQSBatchResponse> => {
    const deadline = deadlineOf(clock);
    for (const { attributes } of Records) {
      reporter.timers.record('zoo.serving.redis.wait', Math.max(0, now() - Number(attributes.SentTimestamp)));
    }
    try {
      return failures(
        await model.use((runner) => {
          const sink = resultSink(results, { filter, model: runner.version, timers: reporter.timers });
          const steps = queueSteps({ runner, running, sink, deadline });
          return serveQueue(chunksOf(Records, payloads, deadline), measuredSteps(steps, reporter));
        }),
      );
    } catch (error) {
      // The model or Redis is away: everything comes again; a result that was written stays.
      tellFailedEvent(error, Records.length);
      return failures(Records.map(({ messageId }) => messageId));
    }
  };

function failures(ids: readonly string[]): SQSBatchResponse {
  return { batchItemFailures: ids.map((id) => ({ itemIdentifier: id })) };
}

export const handler = await lambdaHandler(batch, composeBatch);
