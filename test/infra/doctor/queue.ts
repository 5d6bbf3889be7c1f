/** In: nothing. Out: what can be wrong with settings and queues, and what only looks so; for doctor.test.ts. */
import { type Case, passport, type QuietCase } from './draft.ts';

const MB = 1024 * 1024;
const MAPPING = 'BatchEventSourceMappingSQSQueue';

export const QUEUE_CASES: readonly Case[] = [
  {
    rule: 'settings-notes',
    name: 'a key that something else stands for',
    severity: 'info',
    found: /^Lambda runs it/,
    change: ({ facts }) => {
      facts.notes = ['flinkRestUrl (line 3): Lambda runs it'];
    },
  },
  {
    rule: 'result-ttl',
    name: 'results that expire before the last delivery',
    severity: 'warning',
    found: /^600 s$/,
    change: ({ facts }) => {
      facts.job = { ...facts.job, resultTtlSeconds: 600 };
    },
  },
  {
    rule: 'result-ttl',
    name: 'results that expire before the queue gives up',
    severity: 'info',
    found: /^172800 s$/,
    change: ({ facts }) => {
      facts.job = { ...facts.job, resultTtlSeconds: 172_800 };
    },
  },
  {
    rule: 'queue-visibility',
    name: 'hidden for less than six times the timeout',
    severity: 'warning',
    found: /VisibilityTimeout 179 s, and batch may take 30 s/,
    change: (draft) => draft.set('Queue', 'VisibilityTimeout', 179),
  },
  {
    rule: 'queue-visibility',
    name: 'shown again while the function still runs',
    severity: 'error',
    found: /VisibilityTimeout 29 s/,
    change: (draft) => draft.set('Queue', 'VisibilityTimeout', '29'),
  },
  {
    rule: 'queue-visibility',
    name: 'a window that is not added',
    severity: 'warning',
    found: /VisibilityTimeout 180 s/,
    change: (draft) => draft.set(MAPPING, 'MaximumBatchingWindowInSeconds', 1),
  },
  {
    rule: 'queue-dead-letter-retention',
    name: 'dead letters kept as long as the queue',
    severity: 'error',
    found: /MessageRetentionPeriod 345600 s/,
    change: (draft) => draft.set('DeadLetterQueue', 'MessageRetentionPeriod', 345_600),
  },
  {
    rule: 'queue-max-receive-count',
    name: 'two tries',
    severity: 'warning',
    found: /maxReceiveCount 2/,
    change: (draft) => draft.set('Queue', 'RedrivePolicy.maxReceiveCount', 2),
  },
  {
    rule: 'queue-max-receive-count',
    name: 'one try, without a template',
    severity: 'warning',
    found: /maxReceiveCount 1/,
    change: (draft) => {
      draft.withoutTemplate();
      const { job } = draft.facts;
      draft.facts.job = { ...job, queue: { ...job.queue, maxReceiveCount: 1 } };
    },
  },
  {
    rule: 'queue-redrive-missing',
    name: 'a queue without dead letters',
    severity: 'error',
    found: /no RedrivePolicy/,
    change: (draft) => draft.set('Queue', 'RedrivePolicy', undefined),
  },
  {
    rule: 'queue-redrive-allow-policy',
    name: 'dead letters of any queue',
    severity: 'warning',
    found: /RedriveAllowPolicy: none/,
    change: (draft) => draft.set('DeadLetterQueue', 'RedriveAllowPolicy', undefined),
  },
  {
    rule: 'queue-redrive-allow-policy',
    name: 'dead letters of any queue, said so',
    severity: 'warning',
    found: /allowAll/,
    change: (draft) => draft.set('DeadLetterQueue', 'RedriveAllowPolicy', { redrivePermission: 'allowAll' }),
  },
  {
    rule: 'queue-batch-window',
    name: 'eleven records without a window',
    severity: 'error',
    found: /BatchSize 11 with a window of 0 s/,
    change: (draft) => draft.set(MAPPING, 'BatchSize', 11),
  },
  {
    rule: 'queue-fifo',
    name: 'a FIFO queue with a window',
    severity: 'error',
    found: /window of 5 s/,
    change: (draft) => {
      draft.set('Queue', 'FifoQueue', true);
      draft.set(MAPPING, 'MaximumBatchingWindowInSeconds', 5);
    },
  },
  {
    rule: 'queue-fifo',
    name: 'a FIFO queue by its name',
    severity: 'warning',
    found: /FIFO queue Queue with BatchSize 10/,
    change: (draft) => draft.set('Queue', 'QueueName', 'jobs.fifo'),
  },
  {
    rule: 'queue-partial-failures',
    name: 'an answer that nobody reads',
    severity: 'error',
    found: /FunctionResponseTypes \[\]/,
    change: (draft) => draft.set(MAPPING, 'FunctionResponseTypes', undefined),
  },
  {
    rule: 'queue-encryption',
    name: 'a queue in plain text',
    severity: 'warning',
    found: /neither SqsManagedSseEnabled nor KmsMasterKeyId/,
    change: (draft) => draft.set('Queue', 'SqsManagedSseEnabled', false),
  },
  {
    rule: 'queue-message-size',
    name: 'the limit of before 2025',
    severity: 'warning',
    found: /262,144 bytes/,
    change: (draft) => draft.set('Queue', 'MaximumMessageSize', 262_144),
  },
  {
    rule: 'batch-duration',
    name: 'ten records of four seconds in thirty',
    severity: 'warning',
    found: /^10 records of 4000\.0 ms each are 40\.0 s one by one, of 30 s$/,
    change: (draft) => draft.model({ passport: passport({ latencyMs: 4_000 }) }),
  },
  {
    rule: 'batch-duration',
    name: 'ten records of two seconds in thirty, without a template',
    severity: 'info',
    found: /are 20\.0 s one by one, of 30 s$/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.model({ passport: passport({ latencyMs: 2_000 }) });
    },
  },
  {
    rule: 'concurrency-account',
    name: 'a queue that takes nearly all',
    severity: 'warning',
    found: /^up to 902 of 1,000$/,
    change: (draft) => draft.set(MAPPING, 'ScalingConfig.MaximumConcurrency', 900),
  },
  {
    rule: 'queue-batch-payload',
    name: 'a hundred records of up to 1 MiB',
    severity: 'info',
    found: /^100 records, up to 100\.0 MB/,
    change: (draft) => draft.set(MAPPING, 'BatchSize', 100),
  },
  {
    rule: 'queue-batch-payload',
    name: 'tensors of which seven fit',
    severity: 'warning',
    found: /^10 records; one as tensors of this model is 0\.8 MB/,
    change: (draft) => draft.model({ passport: passport({ recordBytes: 0.8 * MB }) }),
  },
  {
    rule: 'queue-maximum-concurrency',
    name: 'no limit',
    severity: 'warning',
    found: /no MaximumConcurrency/,
    change: (draft) => draft.set(MAPPING, 'ScalingConfig', undefined),
  },
  {
    rule: 'queue-maximum-concurrency',
    name: 'one, which AWS refuses',
    severity: 'error',
    found: /MaximumConcurrency 1$/,
    change: (draft) => draft.set(MAPPING, 'ScalingConfig.MaximumConcurrency', 1),
  },
  {
    rule: 'queue-maximum-concurrency',
    name: 'more than a thousand',
    severity: 'error',
    found: /MaximumConcurrency 1001$/,
    change: (draft) => draft.set(MAPPING, 'ScalingConfig.MaximumConcurrency', 1001),
  },
  {
    rule: 'queue-maximum-concurrency',
    name: 'provisioned pollers beside it',
    severity: 'error',
    found: /ProvisionedPollerConfig/,
    change: (draft) => draft.set(MAPPING, 'ProvisionedPollerConfig', { MinimumPollers: 2 }),
  },
  {
    rule: 'queue-reserved-concurrency',
    name: 'five reserved, ten fed',
    severity: 'error',
    found: /ReservedConcurrentExecutions 5, and its queue may start 10/,
    change: (draft) => draft.set('BatchLambdaFunction', 'ReservedConcurrentExecutions', 5),
  },
  {
    rule: 'queue-reserved-concurrency',
    name: 'reserved, and the queue without a limit',
    severity: 'error',
    found: /may start 1250/,
    change: (draft) => {
      draft.set('BatchLambdaFunction', 'ReservedConcurrentExecutions', 500);
      draft.set(MAPPING, 'ScalingConfig', undefined);
    },
  },
];

export const QUEUE_QUIET: readonly QuietCase[] = [
  {
    rule: 'batch-duration',
    name: 'a batch that takes the time its function has',
    change: (draft) => draft.model({ passport: passport({ latencyMs: 3_000 }) }),
  },
  {
    rule: 'concurrency-account',
    name: 'all that may be reserved',
    change: (draft) => draft.set(MAPPING, 'ScalingConfig.MaximumConcurrency', 898),
  },
  {
    rule: 'queue-batch-window',
    name: 'a hundred records in a window of one second',
    change: (draft) => {
      draft.set(MAPPING, 'BatchSize', 100);
      draft.set(MAPPING, 'MaximumBatchingWindowInSeconds', 1);
    },
  },
  {
    rule: 'queue-visibility',
    name: 'a window that is added',
    change: (draft) => {
      draft.set(MAPPING, 'MaximumBatchingWindowInSeconds', 20);
      draft.set('Queue', 'VisibilityTimeout', 200);
    },
  },
  {
    rule: 'queue-reserved-concurrency',
    name: 'as many reserved as fed',
    change: (draft) => draft.set('BatchLambdaFunction', 'ReservedConcurrentExecutions', 10),
  },
  {
    rule: 'queue-maximum-concurrency',
    name: 'provisioned pollers alone',
    change: (draft) => {
      draft.set(MAPPING, 'ScalingConfig', undefined);
      draft.set(MAPPING, 'ProvisionedPollerConfig', { MinimumPollers: 2 });
    },
  },
  {
    rule: 'queue-encryption',
    name: 'a key of KMS',
    change: (draft) => {
      draft.set('Queue', 'SqsManagedSseEnabled', undefined);
      draft.set('Queue', 'KmsMasterKeyId', 'alias/aws/sqs');
    },
  },
  {
    rule: 'queue-batch-payload',
    name: 'records over 1 MiB, which travel through S3',
    change: (draft) => draft.model({ passport: passport({ recordBytes: 5 * MB }) }),
  },
];
