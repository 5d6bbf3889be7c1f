/**
 * SQS event -> one result per record in Redis. Out: the ids of the messages that SQS shall deliver again.
 * Trap: results are written before the answer; a crash in between delivers the batch again, and the first written
 * result of a uri stays.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { logError } from '../lib/log.ts';
import type { Reporter } from '../lib/metrics/reporter.ts';
import type { ModelHost } from '../lib/model/host.ts';
import { liveModel } from '../lib/model/live.ts';
import { type Filter, parseFilter } from '../lib/pipeline/filter.ts';
import { runRecords } from '../lib/pipeline/records.ts';
import { liveConnection, liveResults } from '../lib/results/live.ts';
import { liveReporter } from '../lib/results/reporter.ts';
import { RunningNews } from '../lib/results/running.ts';
import { RecordStates } from '../lib/results/states.ts';
import type { ResultStore } from '../lib/results/store.ts';
import { toFields } from '../lib/results/stored.ts';
import { livePayloads } from '../lib/s3/live.ts';
import type { PayloadStore } from '../lib/s3/payloads.ts';
import { live } from './live.ts';

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
  async (event: SQSEvent): Promise<SQSBatchResponse> => {
    const ids = event.Records.map(({ messageId }) => messageId);
    for (const { attributes } of event.Records) {
      reporter.timers.record('zoo.serving.redis.wait', Math.max(0, now() - Number(attributes.SentTimestamp)));
    }
    try {
      const bodies = await payloads.resolve(event.Records.map(({ body }) => body));
      const messages = bodies.map((body, i) => ({ id: ids[i] as string, body }));
      const { finished, returned } = await model.use(async (runner) => {
        const stop = reporter.start('zoo.serving.request.predict');
        let told: (() => Promise<void>) | undefined;
        const ran = await runRecords(messages, runner, (uris) => {
          told = running.begin(uris);
        });
        const heard = told?.();
        stop();
        const fields = ran.finished.map(({ uri, outcome }) => ({ uri, fields: toFields(outcome, filter) }));
        const put = reporter.start('zoo.serving.redis.put');
        await Promise.all([results.save(fields, runner.version, reporter.timers), heard]);
        put();
        return ran;
      });
      for (const { id, error } of returned) logError(error, { messageId: id });
      for (const { uri, outcome } of finished)
        if (!outcome.ok && outcome.error.status >= 500) logError(outcome.error, { uri });
      return { batchItemFailures: returned.map(({ id }) => ({ itemIdentifier: id })) };
    } catch (error) {
      // The model or Redis is away: nothing is done, everything comes again.
      logError(error, { messages: ids.length });
      return { batchItemFailures: ids.map((id) => ({ itemIdentifier: id })) };
    }
  };

export const handler = await live(batch, async (environment) => {
  const { jobName, function: lambda } = environment.job;
  const connection = liveConnection(environment);
  const results = liveResults(environment, connection);
  const states = new RecordStates(connection, { job: jobName, now: Date.now });
  return {
    model: await liveModel(environment),
    results,
    running: new RunningNews(states, lambda.timeoutSeconds * 1000, Date.now),
    payloads: livePayloads(environment),
    filter: parseFilter(environment.job.postProcessing),
    reporter: liveReporter(results),
  };
});
