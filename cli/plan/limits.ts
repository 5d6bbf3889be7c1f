/**
 * At which rate each limit breaks: of AWS, of the settings, and of what the settings allow. Closed forms, no simulation: the use of
 * each limit is proportional to the rate, so it breaks where the rate times its share is reached.
 */
import { type Capacity, capacityOf, NODE_SHARE, PUBLIC_SHARE, RECORD } from '../../infra/doctor/capacity.ts';
import type { Settings } from '../../infra/template/config.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import type { Calls } from './calls.ts';
import { DAY_SECONDS, type Load } from './load.ts';

/** The settings of a stack that a plan needs. */
export type PlannedStack = Pick<
  Settings,
  'arch' | 'redisNodeType' | 'redisNodes' | 'redisMaxGB' | 'requestsPerSecond'
> & {
  readonly conventions: Pick<Settings['conventions'], 'pollers'>;
  readonly files: Pick<Settings['files'], 'redis'>;
};

/** The way of a record: answered in the response, or by the queue and read later. */
export type Way = 'requests' | 'queue' | 'both';

export interface Limit {
  readonly name: string;
  readonly way: Way;
  readonly unit: string;
  /** Used by the planned rate. */
  readonly needs: number;
  /** With the settings as they are; null where it is not known. */
  readonly has: number | null;
  /** With the settings that allow the most; null for no limit. */
  readonly most: number | null;
  /** Records a day. */
  readonly breaksAt: number | null;
  readonly mostAt: number | null;
  readonly change: string;
}

/** Defaults of AWS for an account and region, which Service Quotas raises (docs/reference/limits.md). */
export const ACCOUNT = {
  environments: 1_000,
  requestsPerSecond: 10_000,
  /** Messages that were received and not deleted. */
  inFlight: 120_000,
  /** For each node of ElastiCache. */
  connections: 65_000,
} as const;
const MOST_BATCH_ENVIRONMENTS = 1_000;
const GB = 2 ** 30;
/** A second: eight lists of the index, each a partition of DynamoDB, which takes 1,000 writes (lib/table/shards.ts). */
const TABLE_RESULTS = 8_000;
/** cache.r7g.16xlarge, the largest node whose memory is all RAM. One node holds all results (redis=node has one shard). */
const LARGEST_NODE_GB = 419.09;
/** ElastiCache Serverless, as infra/template/parameters.ts accepts it. */
const LARGEST_SERVERLESS_GB = 5_000;
/** From SQS to the function: the 99th percentile in public measurements. */
export const DELIVERY_SECONDS = 0.105;
/** Bytes of Redis for each float32 of an answer, as test/cli/plan/numbers.test.ts measures them. */
export const NUMBER_BYTES = 12;
const COUNTED_NUMBERS = 10;

type Row = Omit<Limit, 'breaksAt' | 'mostAt'>;

/** Those of both ways, the one that breaks first with the settings as they are first. */
export function limitsOf(load: Load, calls: Calls, stack: PlannedStack, job: JobConfig): Limit[] {
  const rows: readonly Row[] = [
    memoryOf(load, stack, job),
    ...requestLimits(load, calls, stack),
    ...queueLimits(load, calls, stack, job),
    stack.files.redis === 'dynamodb' ? tableLimit(load) : connectionLimit(load, calls, stack),
  ];
  const at = (needs: number, limit: number | null) =>
    limit === null ? null : Math.floor((load.perDay * limit) / needs);
  return rows
    .map((row) => ({ ...row, breaksAt: at(row.needs, row.has), mostAt: at(row.needs, row.most) }))
    .toSorted((a, b) => (a.breaksAt ?? Infinity) - (b.breaksAt ?? Infinity));
}

function requestLimits({ peakPerSecond }: Load, calls: Calls, stack: PlannedStack): Row[] {
  return [
    {
      name: 'requests of the HTTP API',
      way: 'both',
      unit: 'a second',
      needs: peakPerSecond,
      has: stack.requestsPerSecond,
      most: Math.max(ACCOUNT.requestsPerSecond, stack.requestsPerSecond),
      change: 'requestsPerSecond; above 10,000 ask for the account: Throttle rate',
    },
    {
      name: 'environments of predict',
      way: 'requests',
      unit: 'at once',
      needs: (peakPerSecond * calls.predictMs) / 1_000,
      has: ACCOUNT.environments,
      most: ACCOUNT.environments,
      change: 'ask for the account: Concurrent executions; send what may wait through the queue',
    },
  ];
}

function queueLimits(
  { peakPerSecond }: Load,
  calls: Calls,
  stack: PlannedStack,
  { queue }: JobConfig,
): Row[] {
  const batchSeconds = calls.batchMs / 1_000;
  const inBatch = (peakPerSecond / calls.records) * batchSeconds;
  const waiting = peakPerSecond * (calls.windowSeconds + batchSeconds + DELIVERY_SECONDS);
  const hasPollers = stack.conventions.pollers.length > 0;
  return [
    {
      name: 'environments of batch',
      way: 'queue',
      unit: 'at once',
      needs: inBatch,
      has: hasPollers ? MOST_BATCH_ENVIRONMENTS : queue.maximumConcurrency,
      most: MOST_BATCH_ENVIRONMENTS,
      change: `queue.maximumConcurrency, up to ${MOST_BATCH_ENVIRONMENTS.toLocaleString('en-US')}; then ask for the account, or more jobs`,
    },
    {
      name: 'messages that are being answered',
      way: 'queue',
      unit: 'at once',
      needs: peakPerSecond * (calls.windowSeconds + batchSeconds),
      has: ACCOUNT.inFlight,
      most: ACCOUNT.inFlight,
      change: 'a smaller queue.windowSeconds or queue.batchSize; ask for the account',
    },
    {
      name: 'clients, if each waits for its result',
      way: 'queue',
      unit: 'at once',
      needs: waiting,
      has: ACCOUNT.environments,
      most: ACCOUNT.environments,
      change: 'ask later instead of Prefer: wait, be notified, or read Redis',
    },
  ];
}

/** The environments of the batch function, and of those that wait. */
function connectionLimit({ peakPerSecond }: Load, calls: Calls, stack: PlannedStack): Row {
  const batchSeconds = calls.batchMs / 1_000;
  const inBatch = (peakPerSecond / calls.records) * batchSeconds;
  const waiting = peakPerSecond * (calls.windowSeconds + batchSeconds + DELIVERY_SECONDS);
  const connections = stack.files.redis === 'node' ? ACCOUNT.connections : null;
  return {
    name: 'connections to Redis, if each waits',
    way: 'queue',
    unit: 'at once',
    needs: inBatch + waiting,
    has: connections,
    most: connections,
    change: 'let fewer clients wait',
  };
}

function tableLimit({ peakPerSecond }: Load): Row {
  return {
    name: 'results of the table',
    way: 'queue',
    unit: 'a second',
    needs: peakPerSecond,
    has: TABLE_RESULTS,
    most: TABLE_RESULTS,
    change: 'more jobs: each has a table of its own',
  };
}

/** Bytes of Redis that stay for each record of a day, with the numbers of its answer. */
export function bytesOfDailyRecord(
  { numbers }: Load,
  { bytesPerDailyRecord }: Capacity,
  { resultTtlSeconds }: JobConfig,
): number {
  // The result is at least what Redis keeps for an empty one.
  const more = Math.max(-RECORD.resultBytes / 2, (numbers - COUNTED_NUMBERS) * NUMBER_BYTES);
  return bytesPerDailyRecord + (more * resultTtlSeconds) / DAY_SECONDS;
}

function memoryOf(load: Load, stack: PlannedStack, job: JobConfig): Row {
  const capacity = capacityOf(stack, job);
  const { redis } = stack.files;
  const isNode = redis === 'node';
  const share = redis === 'public' ? PUBLIC_SHARE : 1;
  const most = isNode ? NODE_SHARE * LARGEST_NODE_GB : share * LARGEST_SERVERLESS_GB;
  const isOurs = isNode || redis === 'serverless' || redis === 'public';
  return {
    name: redis === 'dynamodb' ? 'storage of the table' : 'memory of Redis',
    way: 'queue',
    unit: 'GiB',
    needs: (load.perDay * bytesOfDailyRecord(load, capacity, job)) / GB,
    has: capacity.redisBytes === undefined ? null : capacity.redisBytes / GB,
    most: isOurs ? most : null,
    change:
      redis === 'dynamodb'
        ? 'a smaller answer; more jobs'
        : `${isNode ? 'redisNodeType' : 'redisMaxGB'}; a smaller resultTtlSeconds or answer; take results, which deletes them; more jobs`,
  };
}
