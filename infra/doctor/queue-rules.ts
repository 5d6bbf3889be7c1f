/**
 * Rules about the queue's settings and what they require of Lambda. These problems appear only under load: a test
 * with one record passes.
 */
import { LIMITS } from '../../lib/contract/limits.ts';
import { type Facts, type Finding, megabytes, settingsRule, templateRule } from './rule.ts';
import { functionsOf, recordOf, resourcesOf } from './template.ts';

const LEAST_RECEIVES = 3;
/** Payload limit of a Lambda invocation. */
const INVOKE_BYTES = 6 * 1024 * 1024;
/** SQS's own fields of a message in an event. */
const ENVELOPE_BYTES = 1024;
/** Default limit of a new account, for all its functions together. */
const ACCOUNT_CONCURRENCY = 1_000;
/** AWS keeps these unreserved. */
const UNRESERVED = 100;
/** maximumConcurrency of dead-letter in serverless.yml. */
const DEAD_LETTER_CONCURRENCY = 2;

/** Functions that queues invoke, with the concurrency of their event sources. */
export function queueConcurrency({ job }: Pick<Facts, 'job'>): ReadonlyMap<string, number> {
  return new Map([
    ['batch', job.queue.maximumConcurrency],
    ['dead-letter', DEAD_LETTER_CONCURRENCY],
  ]);
}

const maxReceiveCount = settingsRule({
  id: 'queue-max-receive-count',
  topic: 'Queue',
  looksAt: 'how often a record runs without an outcome before it becomes a dead letter',
  why: 'In every other run a record shares the time of the function with others that may never end: a slow record needs some.',
  fix: 'queue.maxReceiveCount in config.yaml',
  check: ({ job }) => {
    const count = job.queue.maxReceiveCount;
    if (count >= LEAST_RECEIVES) return [];
    const expected = `at least ${LEAST_RECEIVES}`;
    const where = 'queue.maxReceiveCount';
    return [{ severity: 'warning', where, found: `maxReceiveCount ${count}`, expected }];
  },
});

/** For users who remove the dead-letter queue from the stack: nothing else reports lost records. */
const redriveMissing = templateRule({
  id: 'queue-redrive-missing',
  topic: 'Queue',
  looksAt: 'RedrivePolicy of the queue',
  why: 'Without a dead-letter queue, a record that always fails is delivered again and again for queue.retentionSeconds, and is then deleted without a result.',
  fix: 'RedrivePolicy of Queue, as infra/stack/queue.yml of this package has it',
  check: (template) =>
    resourcesOf(template, 'AWS::SQS::Queue')
      .filter(([name]) => name === 'Queue')
      .filter(([, { RedrivePolicy }]) => recordOf(RedrivePolicy)['deadLetterTargetArn'] === undefined)
      .map(([where]) => ({
        severity: 'error',
        where,
        found: 'no RedrivePolicy',
        expected: 'a deadLetterTargetArn and a maxReceiveCount',
      })),
});

const batchPayload = settingsRule({
  id: 'queue-batch-payload',
  topic: 'Queue',
  looksAt: 'queue.batchSize times the size of a record, against the 6 MB of one invocation',
  why: 'Lambda passes at most 6 MB to an invocation: batches of large messages are smaller than queue.batchSize.',
  fix: 'queue.batchSize in config.yaml; or send large records through S3 (the SDK does above 1 MiB)',
  check: ({ model, job }) => {
    const { batchSize } = job.queue;
    const worst = Math.floor(INVOKE_BYTES / (LIMITS.messageBytes + ENVELOPE_BYTES));
    if (batchSize <= worst) return [];
    const where = 'queue.batchSize';
    const record = model.state === 'found' ? model.importReport?.recordBytes : undefined;
    const isInMessage = record !== undefined && record <= LIMITS.messageBytes;
    const fitting = isInMessage ? Math.floor(INVOKE_BYTES / (record + ENVELOPE_BYTES)) : batchSize;
    if (isInMessage && fitting < batchSize) {
      const found = `${batchSize} records; one as tensors of this model is ${megabytes(record)} in a message`;
      return [{ severity: 'warning', where, found, expected: `at most ${fitting}, which fit into 6 MB` }];
    }
    const average = Math.floor((INVOKE_BYTES / batchSize - ENVELOPE_BYTES) / 1024);
    const found = `${batchSize} records, up to ${megabytes(batchSize * LIMITS.messageBytes)} when each fills a message of 1 MiB`;
    const expected = `batches of ${worst} for messages of 1 MiB; of ${batchSize} below ${average} KiB a record`;
    return [{ severity: 'info', where, found, expected }];
  },
});

const batchDuration = settingsRule({
  id: 'batch-duration',
  topic: 'Queue',
  looksAt: "queue.batchSize times the latency in the model's import report, against the timeout of batch",
  why: 'Records that do not finish within the timeout are delivered again, which takes a visibility timeout, and from then on run in a process of their own; after queue.maxReceiveCount runs they become dead letters.',
  fix: 'a smaller queue.batchSize, a longer function.timeoutSeconds (up to 900) or more function.memoryMB in config.yaml',
  check: ({ model, template, job }) => {
    const { batchSize } = job.queue;
    const latencyMs = model.state === 'found' ? model.importReport?.latencyMs : undefined;
    if (latencyMs === undefined) return [];
    const deployed = template && functionsOf(template).find(({ name }) => name === 'batch');
    const timeoutSeconds = deployed?.timeoutSeconds ?? job.function.timeoutSeconds;
    const seconds = (batchSize * latencyMs) / 1000;
    if (seconds <= timeoutSeconds / 2) return [];
    const most = Math.max(1, Math.floor((timeoutSeconds * 1000) / 2 / latencyMs));
    return [
      {
        severity: seconds > timeoutSeconds ? 'warning' : 'info',
        where: 'queue.batchSize',
        found: `${batchSize} records of ${latencyMs.toFixed(1)} ms each are ${seconds.toFixed(1)} s one by one, of ${timeoutSeconds} s`,
        expected: `about ${most}, half of the timeout (latency as measured at import)`,
      },
    ];
  },
});

/** reservedConcurrency in serverless.yml is the usual way to limit a function, and is wrong here. */
const reservedConcurrency = templateRule({
  id: 'queue-reserved-concurrency',
  topic: 'Queue',
  looksAt: 'ReservedConcurrentExecutions of a function that a queue invokes',
  why: 'Throttled pollers return their messages to the queue: records wait for a visibility timeout each time, and after 1,000 deliveries they become dead letters.',
  fix: 'no reservedConcurrency in serverless.yml, or one not below queue.maximumConcurrency',
  check: (template, facts) => {
    const concurrency = queueConcurrency(facts);
    return functionsOf(template).flatMap(({ name, reservedConcurrency: reserved }): Finding[] => {
      const most = concurrency.get(name);
      if (most === undefined || reserved === undefined || reserved >= most) return [];
      const found = `ReservedConcurrentExecutions ${reserved}, and its queue may start ${most}`;
      return [{ severity: 'error', where: name, found, expected: `at least ${most}, or none` }];
    });
  },
});

const accountConcurrency = settingsRule({
  id: 'concurrency-account',
  topic: 'Functions',
  looksAt: 'what queues, reserved and provisioned concurrency take of the 1,000 environments of an account',
  why: 'All functions of an account and region share 1,000 environments unless AWS raised the limit, and 100 must stay unreserved. POST /predict gets what the queue leaves.',
  fix: 'queue.maximumConcurrency in config.yaml, --param provisioned; or ask AWS for a higher limit and ignore this',
  check: (facts) => {
    const queued = queueConcurrency(facts);
    const reserved = (facts.template ? functionsOf(facts.template) : [])
      .filter(({ name }) => !queued.has(name))
      .map(({ reservedConcurrency: count }) => count ?? 0);
    const counts = [...queued.values(), ...reserved, facts.settings.provisioned];
    const taken = counts.reduce((sum, count) => sum + count, 0);
    const most = ACCOUNT_CONCURRENCY - UNRESERVED;
    if (taken <= most) return [];
    const found = `up to ${taken.toLocaleString('en-US')} of ${ACCOUNT_CONCURRENCY.toLocaleString('en-US')}`;
    return [{ severity: 'warning', where: 'all functions', found, expected: `at most ${most}` }];
  },
});

export const QUEUE_RULES = [
  maxReceiveCount,
  redriveMissing,
  batchPayload,
  batchDuration,
  reservedConcurrency,
  accountConcurrency,
];
