/** The event sources of a job: what AWS does between its queues and its functions. */
import { deadLetter } from '../../functions/dead-letter.ts';
import { sqsClient } from '../../lib/compose/accept.ts';
import { composeBatch } from '../../lib/compose/batch.ts';
import { composeDeadLetter } from '../../lib/compose/dead-letter.ts';
import { observeHandler } from '../../lib/compose/observe-handler.ts';
import { s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { hasTargets, type JobConfig, NOTIFIER_SECONDS, sharesOf } from '../../lib/config/job.ts';
import { awsAddressOf } from '../../lib/contract/aws-address.ts';
import { fileJobsPrefix } from '../../lib/contract/names.ts';
import { present } from '../../lib/contract/present.ts';
import type { Model } from '../../lib/contract/values.ts';
import { type EventDeps, serveEvent } from '../../lib/pipeline/event.ts';
import { highQueueName } from '../../lib/queue/names.ts';
import { QueueSender } from '../../lib/queue/sender.ts';
import { OutboxReader } from '../../lib/s3/outbox-reader.ts';
import { listPages } from '../../lib/s3/pages.ts';
import type { LocalAws } from '../aws/aws.ts';
import { watchObjects } from '../event-source/objects.ts';
import { type PollerOptions, startPoller } from '../event-source/poller.ts';
import type { JobServices, OnClose, Runs } from './runs.ts';

/** Events of jobs over files at the same time, where the job does not say: while one reads and writes, the other runs. */
const FILE_JOBS = 2;

export async function openEventSources(
  scope: Scope,
  { aws, log }: JobServices,
  { runs, deadLetterUrl }: { readonly runs: Runs; readonly deadLetterUrl: string },
  onClose: OnClose,
): Promise<void> {
  const { job, queueUrl } = scope.environment;
  const common = { sqs: aws.direct, log, functionTimeoutMs: job.function.timeoutSeconds * 1000 };
  const deps = await composeBatch(scope, runs.model);
  const { model, timed, ...timing } = runs.queued(deps.model);
  const further = deps.further && timed ? timedModels(deps.further, timed) : deps.further;
  const { normal, high } = sharesOf(job.queue, runs.events, 1);
  const batch = {
    ...common,
    functionName: 'batch',
    handler: observeHandler(scope, 'sqs', serveEvent({ ...deps, further, model })),
    ...timing,
    batchSize: job.queue.batchSize,
    windowSeconds: job.queue.windowSeconds,
  };
  const records = await startPoller({ ...batch, queueUrl, maximumConcurrency: normal });
  onClose(() => records.close());
  if (high > 0) {
    const urgent = await startPoller({
      ...batch,
      queueUrl: highQueueName(queueUrl),
      maximumConcurrency: high,
    });
    onClose(() => urgent.close());
  }
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
  await openFileJobs(scope, common, runs, onClose);
  if (hasTargets(job)) await openNotifier(scope, common, await targetQueues(aws, job), onClose);
}

/** Further models, in which waiting does not count as a function's time. */
function timedModels(
  further: NonNullable<EventDeps['further']>,
  timed: (model: Model) => Model,
): NonNullable<EventDeps['further']> {
  return async () => {
    const models = await further();
    return {
      list: () => models.list(),
      find: async (...name) => {
        const found = await models.find(...name);
        return { ...found, model: timed(found.model) };
      },
    };
  };
}

/** Jobs over files, beside the records: their code is loaded with the first message. */
async function openFileJobs(
  scope: Scope,
  common: Pick<PollerOptions, 'sqs' | 'log' | 'functionTimeoutMs'>,
  runs: Runs,
  onClose: OnClose,
): Promise<void> {
  const { job, bucket, fileJobQueueUrl: queueUrl } = scope.environment;
  const { model, timed: _, ...timing } = runs.queued(await runs.model(scope));
  let opening: Promise<PollerOptions['handler']> | undefined;
  const open = async () => {
    const [{ composeJobs }, { serveJobs }] = await Promise.all([
      import('../../lib/compose/jobs.ts'),
      import('../../lib/jobs/serve.ts'),
    ]);
    return observeHandler(scope, 'sqs', serveJobs({ ...(await composeJobs(scope, runs.model)), model }));
  };
  const poller = await startPoller({
    ...common,
    queueUrl,
    functionName: 'jobs',
    handler: async (...call) => (await (opening ??= open()))(...call),
    ...timing,
    batchSize: 1,
    windowSeconds: 0,
    maximumConcurrency: job.jobs.maximumConcurrency || FILE_JOBS,
  });
  onClose(() => poller.close());
  const sender = new QueueSender(scope.get(sqsClient), { queueUrl });
  const dropped = () => listPages(scope.get(s3Client), bucket, `${fileJobsPrefix(job.jobName)}in/`);
  onClose(watchObjects({ pages: dropped }, (message) => sender.send(message), Number.POSITIVE_INFINITY));
}

/** Makes the queues that targets name. @returns their URLs by their names */
async function targetQueues(aws: LocalAws, { notify }: JobConfig): Promise<ReadonlyMap<string, string>> {
  const names = Object.values(notify).flatMap((target) => awsAddressOf(target)?.name ?? []);
  const made = names.map(async (name) => [name, (await aws.createQueue({ name })).url] as const);
  return new Map(await Promise.all(made));
}

/** Loaded for jobs that have targets. */
async function openNotifier(
  scope: Scope,
  common: Pick<PollerOptions, 'sqs' | 'log'>,
  queues: ReadonlyMap<string, string>,
  onClose: OnClose,
): Promise<void> {
  const [{ composeNotifier }, { notifyTargets }] = await Promise.all([
    import('../../lib/compose/notifier.ts'),
    import('../../lib/notify/notifier.ts'),
  ]);
  const deps = await composeNotifier(scope, {
    allowsLoopback: true,
    queueUrl: (name) => present(queues.get(name), name),
  });
  const poller = await startPoller({
    ...common,
    functionTimeoutMs: NOTIFIER_SECONDS * 1000,
    queueUrl: scope.environment.notifyQueueUrl,
    functionName: 'notifier',
    handler: observeHandler(scope, 'sqs', notifyTargets(deps)),
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
  });
  onClose(() => poller.close());
  const { bucket, job } = scope.environment;
  const outbox = new OutboxReader(scope.get(s3Client), bucket, job.jobName);
  onClose(watchObjects(outbox, (message) => deps.sendLater(message, 0)));
}
