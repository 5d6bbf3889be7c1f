/**
 * How many records a day the Redis of a stack holds, and what reading their results costs, from the settings. Bytes are
 * those that test/infra/capacity.test.ts measures; prices are those of lib/contract/prices.ts.
 */
import type { JobConfig } from '../../lib/config/job.ts';
import { IDLE_PRICES, PRICES } from '../../lib/contract/prices.ts';
import type { Settings } from '../template/config.ts';

/** Bytes of Redis for a record with a uri of 36 characters, with what Redis itself needs for keys. */
export const RECORD = {
  /** The result with 10 float32 and its place in the index, for resultTtlSeconds. */
  resultBytes: 1_260,
  /** Which enqueue of the uri is the last: it outlasts the message. */
  newestBytes: 260,
} as const;

/** ElastiCache keeps a quarter of a node for itself. */
export const NODE_SHARE = 0.75;
/** Records are refused from here on (lib/redis/room.ts). */
export const PUBLIC_SHARE = 0.9;
const DAY_SECONDS = 86_400;
const LEAST_NEWEST_SECONDS = 5 * DAY_SECONDS;
/** Memory of a function in serverless.yml that reads results. */
const READER_GB = 0.5;

export interface Capacity {
  /** True for a table of DynamoDB, which takes what comes. */
  readonly isTable: boolean;
  /** Bytes left for records. Undefined for a table, a Redis of another stack, or a node whose memory is not in the table. */
  readonly redisBytes: number | undefined;
  /** Multiplied by the records of a day: the bytes that Redis always holds. */
  readonly bytesPerDailyRecord: number;
  /** With answers of 10 numbers, until Redis is full. */
  readonly recordsPerDay: number | undefined;
  /** Dollars for a million results. */
  readonly dollars: {
    /** Read at once over HTTPS. */
    readonly read: number;
    /** For each second that a request waits for its result. */
    readonly waitedSecond: number;
  };
}

export type RedisSettings = Pick<Settings, 'arch' | 'redisNodeType' | 'redisMaxGB'> & {
  readonly files: Pick<Settings['files'], 'redis'>;
};

export function capacityOf(settings: RedisSettings, { resultTtlSeconds, queue }: JobConfig): Capacity {
  const newestSeconds = Math.max(
    LEAST_NEWEST_SECONDS,
    queue.retentionSeconds + DAY_SECONDS,
    resultTtlSeconds,
  );
  const bytes = RECORD.resultBytes * resultTtlSeconds + RECORD.newestBytes * newestSeconds;
  const bytesPerDailyRecord = Math.round(bytes / DAY_SECONDS);
  const redisBytes = redisBytesOf(settings);
  const waitedSecond = READER_GB * PRICES.perGBSecond[settings.arch] * 1_000_000;
  return {
    isTable: settings.files.redis === 'dynamodb',
    redisBytes,
    bytesPerDailyRecord,
    recordsPerDay: redisBytes && Math.floor(redisBytes / bytesPerDailyRecord),
    dollars: { read: PRICES.apiRequestsPerMillion + PRICES.invocationsPerMillion, waitedSecond },
  };
}

/** Two lines: how much fits, and what reading costs. */
export function capacityText({
  isTable,
  redisBytes,
  bytesPerDailyRecord,
  recordsPerDay,
  dollars,
}: Capacity): string {
  const kB = (bytesPerDailyRecord / 1000).toFixed(1);
  const each = `${kB} kB for each daily record with an answer of 10 numbers`;
  const full =
    redisBytes === undefined || recordsPerDay === undefined
      ? isTable
        ? 'full: never; a table grows with what it holds'
        : `full: not known for this Redis; it needs ${each}`
      : `full: at ${recordsPerDay.toLocaleString('en-US')} records a day (${each}, in ${(redisBytes / 2 ** 20).toFixed(0)} MiB)`;
  const wait = (seconds: number) => (dollars.read + seconds * dollars.waitedSecond).toFixed(2);
  return `${full}\nread: ${dollars.read.toFixed(2)} dollars for a million results over HTTPS; waiting 1 s for each ${wait(1)}, 20 s ${wait(20)}`;
}

function redisBytesOf({ files, redisNodeType, redisMaxGB }: RedisSettings): number | undefined {
  const GB = 2 ** 30;
  if (files.redis === 'serverless') return redisMaxGB * GB;
  if (files.redis === 'public') return PUBLIC_SHARE * redisMaxGB * GB;
  if (files.redis !== 'node') return undefined;
  const memory: Readonly<Record<string, number>> = IDLE_PRICES.cacheNodeGB;
  const ofNode = Object.hasOwn(memory, redisNodeType) ? memory[redisNodeType] : undefined;
  return ofNode && NODE_SHARE * ofNode * GB;
}
