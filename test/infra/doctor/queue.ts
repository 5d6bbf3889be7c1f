/** What can be wrong with the settings of the queue, and what only looks wrong; for test/infra/doctor/doctor.deploy.test.ts. */
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import { type Case, importReport, type QuietCase } from './draft.ts';

const MB = 1024 * 1024;
/** With the other settings of the queue at their defaults. */
const queue = (change: Partial<JobConfig['queue']>) => ({ queue: { ...DEFAULT_JOB.queue, ...change } });

export const QUEUE_CASES: readonly Case[] = [
  {
    rule: 'settings-notes',
    name: 'a key that something else stands for',
    severity: 'info',
    found: /^line 3$/,
    change: ({ facts }) => {
      facts.notes = ['flinkRestUrl (line 3): Lambda runs it'];
    },
  },
  {
    rule: 'result-ttl',
    name: 'results that expire before the last delivery',
    severity: 'warning',
    found: /^600 s$/,
    change: (draft) => draft.job({ resultTtlSeconds: 600 }),
  },
  {
    rule: 'result-ttl',
    name: 'results that expire before the queue gives up',
    severity: 'info',
    found: /^172800 s$/,
    change: (draft) => draft.job({ resultTtlSeconds: 172_800 }),
  },
  {
    rule: 'queue-max-receive-count',
    name: 'two tries',
    severity: 'warning',
    found: /maxReceiveCount 2/,
    change: (draft) => draft.job(queue({ maxReceiveCount: 2 })),
  },
  {
    rule: 'queue-max-receive-count',
    name: 'one try, without a template',
    severity: 'warning',
    found: /maxReceiveCount 1/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.job(queue({ maxReceiveCount: 1 }));
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
    rule: 'batch-duration',
    name: 'ten records of four seconds in thirty',
    severity: 'warning',
    found: /^10 records of 4000\.0 ms each are 40\.0 s one by one, of 30 s$/,
    change: (draft) => draft.model({ importReport: importReport({ latencyMs: 4_000 }) }),
  },
  {
    rule: 'batch-duration',
    name: 'ten records of two seconds in thirty, without a template',
    severity: 'info',
    found: /are 20\.0 s one by one, of 30 s$/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.model({ importReport: importReport({ latencyMs: 2_000 }) });
    },
  },
  {
    rule: 'concurrency-account',
    name: 'a queue that takes nearly all',
    severity: 'warning',
    found: /^up to 902 of 1,000$/,
    change: (draft) => draft.job(queue({ maximumConcurrency: 900 })),
  },
  {
    rule: 'queue-batch-payload',
    name: 'a hundred records of up to 1 MiB',
    severity: 'info',
    found: /^100 records, up to 100\.0 MB/,
    change: (draft) => draft.job(queue({ batchSize: 100 })),
  },
  {
    rule: 'queue-batch-payload',
    name: 'tensors of which seven fit',
    severity: 'warning',
    found: /^10 records; one as tensors of this model is 0\.8 MB/,
    change: (draft) => draft.model({ importReport: importReport({ recordBytes: 0.8 * MB }) }),
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
    name: 'one reserved for the dead letters, two invoked',
    severity: 'error',
    found: /ReservedConcurrentExecutions 1, and its queue may start 2/,
    change: (draft) => draft.set('DeadDashletterLambdaFunction', 'ReservedConcurrentExecutions', 1),
  },
  {
    rule: 'concurrency-account',
    name: 'reserved and provisioned environments beside the queue',
    severity: 'warning',
    found: /^up to 1,012 of 1,000$/,
    change: (draft) => {
      draft.set('StatusLambdaFunction', 'ReservedConcurrentExecutions', 500);
      draft.parameters({ provisioned: 500 });
    },
  },
];

export const QUEUE_QUIET: readonly QuietCase[] = [
  {
    rule: 'batch-duration',
    name: 'a batch that takes the time its function has',
    change: (draft) => draft.model({ importReport: importReport({ latencyMs: 3_000 }) }),
  },
  {
    rule: 'concurrency-account',
    name: 'all that may be reserved',
    change: (draft) => draft.job(queue({ maximumConcurrency: 898 })),
  },
  {
    rule: 'queue-reserved-concurrency',
    name: 'as many reserved as fed',
    change: (draft) => draft.set('BatchLambdaFunction', 'ReservedConcurrentExecutions', 10),
  },
  {
    rule: 'queue-batch-payload',
    name: 'records over 1 MiB, which travel through S3',
    change: (draft) => draft.model({ importReport: importReport({ recordBytes: 5 * MB }) }),
  },
];
