/**
 * In: the queues of a template and what they feed. Out: how messages would be delivered twice, or lost.
 * Trap: what goes wrong here goes wrong under load only; a test with one record passes.
 */
import { deadLetterQueues, type EventSource, eventSourcesOf } from './deployment.ts';
import { counted, type Finding, settingsRule, templateRule } from './rule.ts';
import {
  isTrue,
  listOf,
  namesIn,
  numberOf,
  propertiesOf,
  recordOf,
  resourcesOf,
  textOf,
} from './template.ts';

/** SQS's own, where a template says nothing. */
const DEFAULT_VISIBILITY_SECONDS = 30;
const DEFAULT_RETENTION_SECONDS = 345_600;
const LEAST_RECEIVES = 3;
const MAX_UNGATHERED = 10;
const MAX_MESSAGE_BYTES = 1_048_576;

const visibilitySeconds = (queue: EventSource['queueProperties']) =>
  numberOf(queue['VisibilityTimeout']) ?? DEFAULT_VISIBILITY_SECONDS;

export const retentionSeconds = (queue: EventSource['queueProperties']) =>
  numberOf(queue['MessageRetentionPeriod']) ?? DEFAULT_RETENTION_SECONDS;

const isFifo = (queue: EventSource['queueProperties']) =>
  isTrue(queue['FifoQueue']) || textOf(queue['QueueName']).endsWith('.fifo');

const visibility = templateRule({
  id: 'queue-visibility',
  topic: 'Queue',
  looksAt: 'VisibilityTimeout of a queue against the timeout of the function it feeds',
  why: 'A message that shows again while its batch still runs is delivered twice, and each time costs it a try; Lambda asks for six times the timeout.',
  fix: 'VisibilityTimeout in infra/stack/queue.yml: 6 x function.timeoutSeconds + queue.windowSeconds',
  check: (template) =>
    eventSourcesOf(template).flatMap(({ queue, queueProperties, fed, windowSeconds }): Finding[] => {
      if (queue === undefined || fed === undefined) return [];
      const [has, needs] = [visibilitySeconds(queueProperties), 6 * fed.timeoutSeconds + windowSeconds];
      if (has >= needs) return [];
      return [
        {
          severity: has < fed.timeoutSeconds ? 'error' : 'warning',
          where: queue,
          found: `VisibilityTimeout ${has} s, and ${fed.name} may take ${fed.timeoutSeconds} s`,
          expected: `at least ${needs} s (6 x ${fed.timeoutSeconds} s + a window of ${windowSeconds} s)`,
        },
      ];
    }),
});

const retention = templateRule({
  id: 'queue-dead-letter-retention',
  topic: 'Queue',
  looksAt: 'MessageRetentionPeriod of a queue and of its dead letters',
  why: 'SQS counts from the first send, also in the dead letters: with a shorter time there, a message is gone the moment it arrives.',
  fix: 'MessageRetentionPeriod of DeadLetterQueue in infra/stack/queue.yml; 1209600 (14 days) is the most there is',
  check: (template) =>
    resourcesOf(template, 'AWS::SQS::Queue').flatMap(([queue, properties]): Finding[] => {
      const [target] = namesIn(recordOf(properties['RedrivePolicy'])['deadLetterTargetArn']);
      if (target === undefined) return [];
      const has = retentionSeconds(propertiesOf(template, target));
      const queued = retentionSeconds(properties);
      if (has > queued) return [];
      const expected = `more than the ${queued} s of ${queue}`;
      return [{ severity: 'error', where: target, found: `MessageRetentionPeriod ${has} s`, expected }];
    }),
});

const maxReceiveCount = settingsRule({
  id: 'queue-max-receive-count',
  topic: 'Queue',
  looksAt: 'how often a message is delivered before it goes to the dead letters',
  why: 'A throttled poller and a cold start that fails each use up a try without the record having been looked at.',
  fix: 'queue.maxReceiveCount in config.yaml',
  check: ({ template, job }) => {
    const counts = template
      ? resourcesOf(template, 'AWS::SQS::Queue').flatMap(([queue, { RedrivePolicy }]) => {
          const count = numberOf(recordOf(RedrivePolicy)['maxReceiveCount']);
          return count === undefined ? [] : [{ where: queue, count }];
        })
      : [{ where: 'queue.maxReceiveCount', count: job.queue.maxReceiveCount }];
    return counts
      .filter(({ count }) => count < LEAST_RECEIVES)
      .map(({ where, count }) => ({
        severity: 'warning',
        where,
        found: `maxReceiveCount ${count}`,
        expected: `at least ${LEAST_RECEIVES}`,
      }));
  },
});

const redriveMissing = templateRule({
  id: 'queue-redrive-missing',
  topic: 'Queue',
  looksAt: 'RedrivePolicy of a queue that feeds a function and is no dead-letter queue itself',
  why: 'Without dead letters a record that always fails is delivered again and again until it is 4 days old, and then vanishes without a result.',
  fix: 'RedrivePolicy of the queue in infra/stack/queue.yml',
  check: (template) => {
    const dead = deadLetterQueues(template);
    return eventSourcesOf(template)
      .filter(({ queue }) => queue !== undefined && !dead.has(queue))
      .filter(({ queueProperties }) => {
        const policy = recordOf(queueProperties['RedrivePolicy']);
        return policy['deadLetterTargetArn'] === undefined;
      })
      .map(({ queue }) => ({
        severity: 'error',
        where: queue as string,
        found: 'no RedrivePolicy',
        expected: 'a deadLetterTargetArn and a maxReceiveCount',
      }));
  },
});

const redriveAllow = templateRule({
  id: 'queue-redrive-allow-policy',
  topic: 'Queue',
  looksAt: 'RedriveAllowPolicy of a dead-letter queue',
  why: 'Any queue of the account may give up to this one; its messages would be parked and answered as if they were ours.',
  fix: 'RedriveAllowPolicy of DeadLetterQueue in infra/stack/queue.yml: byQueue with the one queue',
  check: (template) =>
    [...deadLetterQueues(template)].flatMap((queue): Finding[] => {
      const { redrivePermission, sourceQueueArns } = recordOf(
        propertiesOf(template, queue)['RedriveAllowPolicy'],
      );
      if (redrivePermission === 'byQueue' && listOf(sourceQueueArns).length > 0) return [];
      const found = redrivePermission === undefined ? 'none' : textOf(redrivePermission);
      return [
        { severity: 'warning', where: queue, found: `RedriveAllowPolicy: ${found}`, expected: 'byQueue' },
      ];
    }),
});

const batchWindow = templateRule({
  id: 'queue-batch-window',
  topic: 'Queue',
  looksAt: 'BatchSize and MaximumBatchingWindowInSeconds of an event source',
  why: 'SQS gathers more than 10 messages only in a window of at least a second; CloudFormation refuses the stack.',
  fix: 'queue.windowSeconds: 1 or more in config.yaml, or queue.batchSize: 10 or less',
  check: (template) =>
    eventSourcesOf(template)
      .filter(({ queueProperties }) => !isFifo(queueProperties))
      .filter(({ batchSize, windowSeconds }) => batchSize > MAX_UNGATHERED && windowSeconds < 1)
      .map(({ logicalName, batchSize, windowSeconds }) => ({
        severity: 'error',
        where: logicalName,
        found: `BatchSize ${batchSize} with a window of ${windowSeconds} s`,
        expected: `at most ${MAX_UNGATHERED}, or a window of 1 to 300 s`,
      })),
});

const fifo = templateRule({
  id: 'queue-fifo',
  topic: 'Queue',
  looksAt: 'window and batch size of a FIFO queue',
  why: 'A FIFO queue knows no window and at most 10 messages a batch; and one message of a group that fails holds all after it (p99 645 ms against 105).',
  fix: 'a standard queue (the first result of a uri stays, so twice does no harm); else windowSeconds 0 and batchSize 10',
  check: (template) =>
    eventSourcesOf(template)
      .filter(({ queueProperties }) => isFifo(queueProperties))
      .map(({ logicalName, queue, batchSize, windowSeconds }) => {
        const isRefused = windowSeconds > 0 || batchSize > MAX_UNGATHERED;
        return {
          severity: isRefused ? 'error' : 'warning',
          where: logicalName,
          found: `FIFO queue ${queue ?? ''} with BatchSize ${batchSize} and a window of ${windowSeconds} s`,
          expected: 'a standard queue; for FIFO no window and at most 10',
        };
      }),
});

const partialFailures = templateRule({
  id: 'queue-partial-failures',
  topic: 'Queue',
  looksAt: 'FunctionResponseTypes of an event source',
  why: 'Our functions answer which records to deliver again; without this Lambda takes that answer for a success and deletes the failed ones too.',
  fix: 'functionResponseType: ReportBatchItemFailures of the sqs event in serverless.yml',
  check: (template) =>
    eventSourcesOf(template)
      .filter(
        ({ properties }) => !listOf(properties['FunctionResponseTypes']).includes('ReportBatchItemFailures'),
      )
      .map(({ logicalName, properties }) => ({
        severity: 'error',
        where: logicalName,
        found: `FunctionResponseTypes ${JSON.stringify(properties['FunctionResponseTypes'] ?? [])}`,
        expected: 'ReportBatchItemFailures',
      })),
});

const encryption = templateRule({
  id: 'queue-encryption',
  topic: 'Queue',
  looksAt: 'SqsManagedSseEnabled or KmsMasterKeyId of every queue',
  why: 'Messages hold whole records; whoever runs an audit asks for encryption at rest, and SQS-managed keys cost nothing.',
  fix: 'SqsManagedSseEnabled: true in infra/stack/queue.yml',
  check: (template) =>
    resourcesOf(template, 'AWS::SQS::Queue')
      .filter(([, queue]) => !isTrue(queue['SqsManagedSseEnabled']) && queue['KmsMasterKeyId'] === undefined)
      .map(([where]) => ({
        severity: 'warning',
        where,
        found: 'neither SqsManagedSseEnabled nor KmsMasterKeyId',
        expected: 'SqsManagedSseEnabled: true',
      })),
});

const messageSize = templateRule({
  id: 'queue-message-size',
  topic: 'Queue',
  looksAt: 'MaximumMessageSize of every queue',
  why: 'Our sender puts records of up to 1,048,576 bytes into a message and larger ones into S3; a smaller limit refuses what it sends.',
  fix: 'MaximumMessageSize: 1048576 in infra/stack/queue.yml',
  check: (template) =>
    resourcesOf(template, 'AWS::SQS::Queue').flatMap(([where, { MaximumMessageSize }]): Finding[] => {
      const bytes = numberOf(MaximumMessageSize);
      if (bytes === undefined || bytes >= MAX_MESSAGE_BYTES) return [];
      const found = `MaximumMessageSize ${counted(bytes, 'byte')}`;
      return [{ severity: 'warning', where, found, expected: counted(MAX_MESSAGE_BYTES, 'byte') }];
    }),
});

export const QUEUE_RULES = [
  visibility,
  retention,
  maxReceiveCount,
  redriveMissing,
  redriveAllow,
  batchWindow,
  fifo,
  partialFailures,
  encryption,
  messageSize,
];
