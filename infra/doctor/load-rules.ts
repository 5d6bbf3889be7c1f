/**
 * In: how many records come at once, and how large they are. Out: where that meets a limit of Lambda, SQS or Redis.
 * Trap: these limits hold for all functions together; each setting by itself looks harmless.
 */
import { LIMITS } from '../../lib/contract/limits.ts';
import {
  type DeployedFunction,
  eventSourcesOf,
  functionsOf,
  routedFunctions,
  VARIABLES,
} from './deployment.ts';
import { counted, type Facts, type Finding, megabytes, settingsRule, templateRule } from './rule.ts';
import { numberOf, recordOf, resourcesOf, type Template, textOf } from './template.ts';

/** What Lambda hands to a function at most. */
const INVOKE_BYTES = 6 * 1024 * 1024;
/** SQS's own fields of a message in an event. */
const ENVELOPE_BYTES = 1024;
const LEAST_CONCURRENCY = 2;
const MOST_CONCURRENCY = 1_000;
/** What Lambda scales a queue to by itself. */
const UNLIMITED_CONCURRENCY = 1_250;
/** Of a new account, for all its functions together. */
const ACCOUNT_CONCURRENCY = 1_000;
/** Of them AWS lets nobody reserve. */
const UNRESERVED = 100;
/** One for commands, one that hears of results. */
const LISTENING_CONNECTIONS = 2;
/** Connections a node takes, as AWS's table of parameters by node type has them; the first that fits counts. */
const CONNECTION_LIMITS: readonly (readonly [RegExp, number])[] = [
  [/^cache\.t2\./, 20_000],
  [/^cache\.t\w+\.micro$/, 20_000],
  [/^cache\.t\w+\./, 46_000],
  [/./, 65_000],
];
const CROWDED = 0.8;

const batchPayload = settingsRule({
  id: 'queue-batch-payload',
  topic: 'Queue',
  looksAt: 'queue.batchSize times the size of a record, against the 6 MB of one invocation',
  why: 'Lambda hands over at most 6 MB: large messages make small batches, whatever queue.batchSize says.',
  fix: 'queue.batchSize in config.yaml; or send large records through S3 (the SDK does above 1 MiB)',
  check: (facts) => {
    const batchSize = batchSizeOf(facts);
    const worst = Math.floor(INVOKE_BYTES / (LIMITS.messageBytes + ENVELOPE_BYTES));
    if (batchSize <= worst) return [];
    const record = facts.model.state === 'found' ? facts.model.passport?.recordBytes : undefined;
    const where = 'queue.batchSize';
    const isInMessage = record !== undefined && record <= LIMITS.messageBytes;
    const fitting = isInMessage ? Math.floor(INVOKE_BYTES / (record + ENVELOPE_BYTES)) : batchSize;
    if (isInMessage && fitting < batchSize) {
      return [
        {
          severity: 'warning',
          where,
          found: `${batchSize} records; one as tensors of this model is ${megabytes(record)} in a message`,
          expected: `at most ${fitting}: so many fit into 6 MB`,
        },
      ];
    }
    return [
      {
        severity: 'info',
        where,
        found: `${batchSize} records, up to ${megabytes(batchSize * LIMITS.messageBytes)} when each fills a message of 1 MiB`,
        expected: `batches of ${worst} while messages are that large; of ${batchSize} below ${averageText(batchSize)} a record`,
      },
    ];
  },
});

function averageText(batchSize: number): string {
  return `${Math.floor((INVOKE_BYTES / batchSize - ENVELOPE_BYTES) / 1024)} KiB`;
}

function batchSizeOf({ template, job }: Facts): number {
  const sizes = template ? eventSourcesOf(template).filter(({ fed }) => fed?.name === 'batch') : [];
  return sizes[0]?.batchSize ?? job.queue.batchSize;
}

const maximumConcurrency = templateRule({
  id: 'queue-maximum-concurrency',
  topic: 'Queue',
  looksAt: 'ScalingConfig.MaximumConcurrency of an event source',
  why: `Without it Lambda scales one queue to ${UNLIMITED_CONCURRENCY} functions, which take the account's ${ACCOUNT_CONCURRENCY} from everyone else; outside 2 to 1,000 the stack is refused.`,
  fix: 'queue.maximumConcurrency in config.yaml',
  check: (template) =>
    eventSourcesOf(template).flatMap(
      ({ logicalName: where, maximumConcurrency: most, properties }): Finding[] => {
        const expected = `${LEAST_CONCURRENCY} to ${MOST_CONCURRENCY}`;
        if (properties['ProvisionedPollerConfig'] !== undefined && most !== undefined) {
          const found = `MaximumConcurrency ${most} and ProvisionedPollerConfig`;
          const why = 'AWS takes one or the other.';
          return [{ severity: 'error', where, found, expected: 'one of the two', why }];
        }
        if (properties['ProvisionedPollerConfig'] !== undefined) return [];
        if (most === undefined)
          return [{ severity: 'warning', where, found: 'no MaximumConcurrency', expected }];
        if (most >= LEAST_CONCURRENCY && most <= MOST_CONCURRENCY) return [];
        return [{ severity: 'error', where, found: `MaximumConcurrency ${most}`, expected }];
      },
    ),
});

const reservedConcurrency = templateRule({
  id: 'queue-reserved-concurrency',
  topic: 'Queue',
  looksAt: 'ReservedConcurrentExecutions of a function that a queue feeds',
  why: 'Pollers that are throttled give their messages back, and each time costs a try: good records end in the dead letters.',
  fix: 'no reservedConcurrency in serverless.yml, or one not below queue.maximumConcurrency',
  check: (template) =>
    eventSourcesOf(template).flatMap(
      ({ fed, maximumConcurrency: most = UNLIMITED_CONCURRENCY }): Finding[] => {
        const reserved = fed?.reservedConcurrency;
        if (fed === undefined || reserved === undefined || reserved >= most) return [];
        return [
          {
            severity: 'error',
            where: fed.name,
            found: `ReservedConcurrentExecutions ${reserved}, and its queue may start ${most}`,
            expected: `at least ${most}, or none`,
          },
        ];
      },
    ),
});

const connections = templateRule({
  id: 'redis-connections',
  topic: 'Redis',
  looksAt: 'environments that may run at once, times their connections, against what a node takes',
  why: 'Every environment keeps its connections, asleep too; above the limit Redis refuses new ones, and requests fail with results_unavailable.',
  fix: 'queue.maximumConcurrency in config.yaml, reservedConcurrency in serverless.yml, or --param redisNodeType',
  check: (template, { parameters }) => {
    const groups = resourcesOf(
      template,
      'AWS::ElastiCache::ReplicationGroup',
      'AWS::ElastiCache::CacheCluster',
    );
    const open = connectionsOf(template);
    return groups.flatMap(([where, { CacheNodeType }]): Finding[] => {
      const type = textOf(CacheNodeType) || String(parameters['redisNodeType'] ?? '');
      const limit = CONNECTION_LIMITS.find(([pattern]) => pattern.test(type))?.[1];
      if (limit === undefined || open.total <= limit * CROWDED) return [];
      return [
        {
          severity: open.total > limit ? 'error' : 'warning',
          where,
          found: `up to ${counted(open.total, 'connection')} (${open.text}) to a ${type}`,
          expected: `at most ${(limit * CROWDED).toLocaleString('en-US')}, 80 % of its ${limit.toLocaleString('en-US')}`,
        },
      ];
    });
  },
});

interface Connections {
  readonly total: number;
  readonly text: string;
}

/** Those that share the account's concurrency count it once. */
function connectionsOf(template: Template): Connections {
  const routed = routedFunctions(template);
  const sources = eventSourcesOf(template);
  const users = functionsOf(template).filter(({ variables }) => variables[VARIABLES.redis] !== undefined);
  let total = 0;
  const parts: string[] = [];
  const add = (name: string, environments: number, each: number) => {
    total += environments * each;
    parts.push(`${name} ${environments.toLocaleString('en-US')} x ${each}`);
  };
  const shared: DeployedFunction[] = [];
  for (const user of users) {
    const fedBy = sources.find(({ fed }) => fed?.logicalName === user.logicalName);
    const each = routed.has(user.logicalName) ? LISTENING_CONNECTIONS : 1;
    if (fedBy) {
      const most = fedBy.maximumConcurrency ?? UNLIMITED_CONCURRENCY;
      add(user.name, Math.min(most, user.reservedConcurrency ?? most), each);
    } else if (user.reservedConcurrency !== undefined) add(user.name, user.reservedConcurrency, each);
    else shared.push(user);
  }
  if (shared.length > 0) {
    add(shared.map(({ name }) => name).join('/'), ACCOUNT_CONCURRENCY, LISTENING_CONNECTIONS);
  }
  return { total, text: parts.join(', ') };
}

const batchDuration = settingsRule({
  id: 'batch-duration',
  topic: 'Queue',
  looksAt: "queue.batchSize times the latency in the model's passport, against the timeout of batch",
  why: 'What does not end within the timeout is given back and costs a try; after queue.maxReceiveCount of them good records are dead letters.',
  fix: 'a smaller queue.batchSize, a longer function.timeoutSeconds (up to 900) or more function.memoryMB in config.yaml',
  check: (facts) => {
    const latencyMs = facts.model.state === 'found' ? facts.model.passport?.latencyMs : undefined;
    if (latencyMs === undefined) return [];
    const fed = facts.template ? eventSourcesOf(facts.template).map((source) => source.fed) : [];
    const timeoutSeconds =
      fed.find((one) => one?.name === 'batch')?.timeoutSeconds ?? facts.job.function.timeoutSeconds;
    const batchSize = batchSizeOf(facts);
    const seconds = (batchSize * latencyMs) / 1000;
    if (seconds <= timeoutSeconds / 2) return [];
    const most = Math.max(1, Math.floor((timeoutSeconds * 1000) / 2 / latencyMs));
    return [
      {
        severity: seconds > timeoutSeconds ? 'warning' : 'info',
        where: 'queue.batchSize',
        found: `${batchSize} records of ${latencyMs.toFixed(1)} ms each are ${seconds.toFixed(1)} s one by one, of ${timeoutSeconds} s`,
        expected: `about ${most}, which is half of the timeout (measured where the model was imported)`,
      },
    ];
  },
});

const accountConcurrency = templateRule({
  id: 'concurrency-account',
  topic: 'Functions',
  looksAt: 'what queues, reserved and provisioned concurrency take of the 1,000 environments of an account',
  why: 'All functions of an account and region share 1,000 environments unless AWS raised it; 100 must stay unreserved. What the queue takes, POST /predict does not get.',
  fix: 'queue.maximumConcurrency in config.yaml, --param provisioned; or ask AWS for more and pass over this',
  check: (template) => {
    const sources = eventSourcesOf(template);
    const kept = functionsOf(template)
      .filter((one) => !sources.some(({ fed }) => fed?.logicalName === one.logicalName))
      .map((one) => one.reservedConcurrency ?? 0);
    const provisioned = resourcesOf(template, 'AWS::Lambda::Alias').map(([, alias]) => {
      const config = recordOf(alias['ProvisionedConcurrencyConfig']);
      return numberOf(config['ProvisionedConcurrentExecutions']) ?? 0;
    });
    const queued = sources.map(({ maximumConcurrency: limit }) => limit ?? 0);
    const taken = [...queued, ...kept, ...provisioned].reduce((sum, count) => sum + count, 0);
    const most = ACCOUNT_CONCURRENCY - UNRESERVED;
    if (taken <= most) return [];
    const found = `up to ${taken.toLocaleString('en-US')} of ${ACCOUNT_CONCURRENCY.toLocaleString('en-US')}`;
    return [{ severity: 'warning', where: 'all functions', found, expected: `at most ${most}` }];
  },
});

const resultTtl = settingsRule({
  id: 'result-ttl',
  topic: 'Settings',
  looksAt: 'resultTtlSeconds against how long a message may be on its way',
  why: 'The first result of a uri stays only as long as it is there: a message that comes again after it has expired runs again, and a wait for it ends with "expired".',
  fix: 'resultTtlSeconds in config.yaml',
  check: ({ job, settings }) => {
    const tries = settings.visibilityTimeoutSeconds * settings.maxReceiveCount;
    const ttl = job.resultTtlSeconds;
    const where = 'resultTtlSeconds';
    if (ttl < tries) {
      const expected = `at least ${tries} s: ${settings.maxReceiveCount} deliveries, ${settings.visibilityTimeoutSeconds} s apart`;
      return [{ severity: 'warning', where, found: `${ttl} s`, expected }];
    }
    if (ttl >= QUEUE_SECONDS) return [];
    const expected = `${QUEUE_SECONDS} s, the queue's 4 days, where late deliveries must not run again`;
    return [{ severity: 'info', where, found: `${ttl} s`, expected }];
  },
});

/** Of infra/stack/queue.yml. */
const QUEUE_SECONDS = 345_600;

export const LOAD_RULES = [
  batchPayload,
  maximumConcurrency,
  reservedConcurrency,
  batchDuration,
  accountConcurrency,
  connections,
  resultTtl,
];
