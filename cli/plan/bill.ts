/**
 * The bill of a month by part, each way taken alone: every record by POST /predict, or every record through the queue in full events.
 * The quantities are those of docs/explanation/costs.md, the prices those of lib/contract/prices.ts.
 */
import { capacityOf } from '../../infra/doctor/capacity.ts';
import type { IdlePrice } from '../../infra/doctor/idle-price.ts';
import { ECPUS_OF_RECORD } from '../../infra/doctor/kinds.ts';
import { tablePriceOf } from '../../infra/doctor/table-price.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { IDLE_PRICES, PRICES, USE_PRICES } from '../../lib/contract/prices.ts';
import { ACCESS_LOG_BYTES, CALL_LOG_BYTES } from '../../lib/metrics/cost.ts';
import { batchCost, predictCost } from '../tune/cost.ts';
import type { Calls } from './calls.ts';
import { bytesOfDailyRecord, type PlannedStack } from './limits.ts';
import { type Load, MONTH_HOURS } from './load.ts';

export interface Part {
  readonly what: string;
  /** Dollars a month; null where no price is known. */
  readonly requests: number | null;
  readonly queue: number | null;
}

export interface BilledStack extends PlannedStack {
  readonly tracing: 'on' | 'off';
  readonly metrics: 'on' | 'off';
  readonly monitoring: 'basic' | 'full';
  readonly provisioned: number;
  /** That of the packaged template. Default: what is known without one. */
  readonly idle: IdlePrice | undefined;
}

const MILLION = 1e6;
const GB = 1e9;
const MONTH_SECONDS = MONTH_HOURS * 3_600;
/** Metrics of our own that a function writes. */
const METRICS = { predict: 6, batch: 7 } as const;
/** X-Ray: the first call of each second, and a twentieth of the others. */
const TRACED_SHARE = 0.05;
const LEAST_SERVERLESS_GB = 0.1;
/** Alarms of a stack with a Redis of nodes, by metric. */
const ALARMS = { basic: 4, full: 30, fullByNode: 4 } as const;

export function billOf(load: Load, calls: Calls, stack: BilledStack, job: JobConfig): Part[] {
  const millions = load.perMonth / MILLION;
  const events = load.perMonth / calls.records;
  const { arch } = stack;
  const { predictMs, batchMs, memoryMB, records } = calls;
  const predict = predictCost(predictMs, memoryMB, load.recordBytes, arch);
  const messageBytes = load.recordBytes;
  const batch = batchCost({ ms: batchMs, memoryMB, records, messageBytes }, arch);
  const invocations = PRICES.invocationsPerMillion;
  const both = (dollars: number | null) => ({ requests: dollars, queue: dollars });
  return [
    {
      what: stack.files.redis === 'dynamodb' ? 'DynamoDB' : 'Redis',
      requests: redisPrice(0, load, stack, job),
      queue: redisPrice(load.perDay, load, stack, job),
    },
    { what: 'the stack, idle', ...both(idleBesideRedis(stack)) },
    {
      what: 'warm environments',
      ...both(stack.provisioned * MONTH_SECONDS * (memoryMB / 1024) * IDLE_PRICES.warmGBSecond),
    },
    { what: 'HTTP API', requests: millions * (predict.requests - invocations), queue: 0 },
    {
      what: 'SQS, and S3 for large records',
      requests: 0,
      queue: millions * (batch.requests - invocations / records),
    },
    {
      what: 'Lambda, requests',
      requests: millions * invocations,
      queue: (millions * invocations) / records,
    },
    { what: 'Lambda, time', requests: millions * predict.time, queue: millions * batch.time },
    {
      what: 'logs',
      requests: logsPrice(load.perMonth * (CALL_LOG_BYTES + ACCESS_LOG_BYTES)),
      queue: logsPrice(events * CALL_LOG_BYTES),
    },
    {
      what: 'metrics of our own',
      requests: stack.metrics === 'on' ? METRICS.predict * USE_PRICES.metric : 0,
      queue: stack.metrics === 'on' ? METRICS.batch * USE_PRICES.metric : 0,
    },
    {
      what: 'traces',
      requests: stack.tracing === 'on' ? tracesPrice(load.perMonth) : 0,
      queue: stack.tracing === 'on' ? tracesPrice(events) : 0,
    },
    {
      what: 'reading each result once over HTTPS',
      requests: 0,
      queue: millions * capacityOf(stack, job).dollars.read + logsPrice(load.perMonth * ACCESS_LOG_BYTES),
    },
  ];
}

/** The known parts together. */
export function togetherOf(parts: readonly Part[]): { requests: number; queue: number } {
  const sum = (way: 'requests' | 'queue') => parts.reduce((total, part) => total + (part[way] ?? 0), 0);
  return { requests: sum('requests'), queue: sum('queue') };
}

/** @param perDay records whose results are kept. @returns null for a node that does not hold them, too */
function redisPrice(perDay: number, load: Load, stack: PlannedStack, job: JobConfig): number | null {
  const { redis } = stack.files;
  const capacity = capacityOf(stack, job);
  const bytes = perDay * bytesOfDailyRecord(load, capacity, job);
  if (redis === 'node') {
    const hourly: Readonly<Record<string, number>> = IDLE_PRICES.cacheNodeHour;
    const price = Object.hasOwn(hourly, stack.redisNodeType) ? hourly[stack.redisNodeType] : undefined;
    const isFull = capacity.redisBytes !== undefined && bytes > capacity.redisBytes;
    return price === undefined || isFull ? null : MONTH_HOURS * stack.redisNodes * price;
  }
  if (redis === 'dynamodb') return tablePriceOf(perDay === 0 ? 0 : load.perMonth / MILLION, perDay, job);
  if (redis !== 'serverless' && redis !== 'public') return null;
  return serverlessPrice(bytes, (perDay / load.perDay) * load.perMonth);
}

/** ElastiCache Serverless for a month. @param records that are written and read */
export function serverlessPrice(bytes: number, records: number): number {
  const stored = Math.max(LEAST_SERVERLESS_GB, bytes / GB) * MONTH_HOURS * USE_PRICES.serverlessCacheGBHour;
  return stored + ((records * ECPUS_OF_RECORD) / MILLION) * PRICES.millionECPUs;
}

function idleBesideRedis({ idle, files, monitoring, redisNodes }: BilledStack): number | null {
  if (idle) {
    if (idle.unknown.length > 0) return null;
    return idle.parts.reduce((sum, { what, dollars }) => (isCounted(what) ? sum + dollars : sum), 0);
  }
  if (files.redis !== 'node') return null;
  const isFull = monitoring === 'full';
  const metrics = isFull ? ALARMS.full + ALARMS.fullByNode * redisNodes : ALARMS.basic;
  return metrics * IDLE_PRICES.alarmMetric + (isFull ? IDLE_PRICES.dashboard : 0);
}

/** Those that have no part of their own. */
function isCounted(what: string): boolean {
  return what !== 'Redis' && what !== 'warm environments';
}

function logsPrice(bytes: number): number {
  return (bytes / GB) * USE_PRICES.logsPerGB;
}

function tracesPrice(calls: number): number {
  const traced = Math.min(calls, MONTH_SECONDS + TRACED_SHARE * Math.max(0, calls - MONTH_SECONDS));
  return (traced / MILLION) * USE_PRICES.tracesPerMillion;
}
