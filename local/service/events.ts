/** The event sources of a job: what AWS does between its queues and its functions. */
import { deadLetter } from '../../functions/dead-letter.ts';
import { composeBatch } from '../../lib/compose/batch.ts';
import { composeDeadLetter } from '../../lib/compose/dead-letter.ts';
import { observeHandler } from '../../lib/compose/observe-handler.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { startPoller } from '../event-source/poller.ts';
import type { JobServices, OnClose, Runs } from './runs.ts';

export async function openEventSources(
  scope: Scope,
  { aws, log }: JobServices,
  { runs, deadLetterUrl }: { readonly runs: Runs; readonly deadLetterUrl: string },
  onClose: OnClose,
): Promise<void> {
  const { job, queueUrl } = scope.environment;
  const common = { sqs: aws.direct, log, functionTimeoutMs: job.function.timeoutSeconds * 1000 };
  const deps = await composeBatch(scope, runs.model);
  const { model, ...timing } = runs.queued(deps.model);
  const batches = await startPoller({
    ...common,
    queueUrl,
    functionName: 'batch',
    handler: observeHandler(scope, 'sqs', serveEvent({ ...deps, model })),
    ...timing,
    batchSize: job.queue.batchSize,
    windowSeconds: job.queue.windowSeconds,
    maximumConcurrency: runs.events,
  });
  onClose(() => batches.close());
  const deadLetters = await startPoller({
    ...common,
    queueUrl: deadLetterUrl,
    functionName: 'dead-letter',
    handler: observeHandler(scope, 'sqs', deadLetter(await composeDeadLetter(scope))),
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
  });
  onClose(() => deadLetters.close());
}
