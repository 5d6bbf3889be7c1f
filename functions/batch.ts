/**
 * SQS event -> one result per record in Redis. Out: the ids of the messages that SQS shall deliver again.
 * Trap: results are written before the answer; a crash in between delivers the batch again, and the first written
 * result of a uri stays.
 */
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { live } from '../lib/compose/live.ts';
import { liveModel } from '../lib/compose/live-model.ts';
import { liveConnection, liveResults } from '../lib/compose/live-redis.ts';
import { livePayloads } from '../lib/compose/live-s3.ts';
import type { Runner } from '../lib/contract/values.ts';
import type { ModelHost } from '../lib/inference/model-manager.ts';
import { tellFailedEvent, tellOutcomes } from '../lib/metrics/outcomes.ts';
import type { Reporter } from '../lib/metrics/reporter.ts';
import { runTime } from '../lib/pipeline/deadline.ts';
import { runPart, runParts } from '../lib/pipeline/parts.ts';
import { type Filter, parseFilter } from '../lib/pipeline/postprocess.ts';
import { type Message, runRecords } from '../lib/pipeline/records.ts';
import { saveFinished } from '../lib/redis/finished.ts';
import { RecordStates } from '../lib/redis/record-states.ts';
import { liveReporter } from '../lib/redis/reporter.ts';
import type { ResultStore } from '../lib/redis/results.ts';
import { RunningNews } from '../lib/redis/running.ts';
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

type Clock = Pick<Context, 'getRemainingTimeInMillis'>;

export const batch =
  ({ model, results, running, payloads, filter, reporter, now = Date.now }: BatchDeps) =>
  async ({ Records }: SQSEvent, context?: Clock): Promise<SQSBatchResponse> => {
    const time = runTime(context);
    const ids = Records.map(({ messageId }) => messageId);
    const failed: string[] = [];
    for (const { attributes } of Records) {
      reporter.timers.record('zoo.serving.redis.wait', Math.max(0, now() - Number(attributes.SentTimestamp)));
    }
    const runAndSave = async (part: readonly Message[], runner: Runner) => {
      const stop = reporter.start('zoo.serving.request.predict');
      let endRun: (() => Promise<void>) | undefined;
      const { finished, returned } = await runRecords(part, runPart(part, runner, time), async (uris) => {
        endRun = await running.begin(uris);
      });
      const heard = endRun?.();
      stop();
      const put = reporter.start('zoo.serving.redis.put');
      const saving = { filter, model: runner.version, timers: reporter.timers };
      const [unsaved] = await Promise.all([saveFinished(results, finished, saving), heard]);
      put();
      tellOutcomes({ finished, returned });
      failed.push(...returned.map(({ id }) => id), ...unsaved);
    };
    try {
      const returned = await model.use((runner) =>
        runParts(Records, payloads.resolve.bind(payloads), (part) => runAndSave(part, runner), time),
      );
      tellOutcomes({ finished: [], returned });
      failed.push(...returned.map(({ id }) => id));
      return { batchItemFailures: failed.map((id) => ({ itemIdentifier: id })) };
    } catch (error) {
      // The model or Redis is away: everything comes again; a result that was written stays.
      tellFailedEvent(error, ids.length);
      return { batchItemFailures: ids.map((id) => ({ itemIdentifier: id })) };
    }
  };

export const handler = await live(batch, async (environment) => {
  const connection = liveConnection(environment);
  const results = liveResults(environment, connection);
  const states = new RecordStates(connection, { job: environment.job.jobName, now: Date.now });
  return {
    model: await liveModel(environment),
    results,
    running: new RunningNews(states, environment.job.function.timeoutSeconds * 1000, Date.now),
    payloads: livePayloads(environment),
    filter: parseFilter(environment.job.postProcessing),
    reporter: liveReporter(results),
  };
});
