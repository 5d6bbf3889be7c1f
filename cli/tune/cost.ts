/**
 * In: measured times, a memory setting. Out: how long a call takes there and what a million predictions cost.
 * Trap: Lambda gives processor time in proportion to memory. Below one vCPU the measured time is divided by the share,
 * which is arithmetic and no measurement; above the cores of this machine there is nothing to compute from.
 */
import {
  API_UNIT_BYTES,
  ARCHITECTURES,
  type Architecture,
  PRICES,
  QUEUE_UNIT_BYTES,
} from '../../infra/prices.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { threadsForMemory } from '../../lib/inference/session.ts';
import type { MeasuredPoint, ModelFacts, Times } from './points.ts';

/** In dollars, per million predictions. */
interface Cost {
  /** GB-seconds of Lambda. */
  readonly time: number;
  /** Invocations, and the requests of the way there: HTTP API, or SQS and S3. */
  readonly requests: number;
  readonly total: number;
}

export interface Setting {
  /** function.memoryMB */
  readonly memoryMB: number;
  /** Of one run; 0 for threadPerModel where it is one per vCPU. */
  readonly threads: number;
  readonly vCpus: number;
  /**
   * measured: as it ran here. scaled: below one vCPU, divided by the share. fewer cores: with as many as this machine
   * has, which are fewer than Lambda would give.
   */
  readonly basis: 'measured' | 'scaled' | 'fewer cores';
}

export interface PredictResult {
  readonly ms: number;
  readonly p99Ms: number;
  readonly costs: Readonly<Record<Architecture, Cost>>;
}

export interface BatchResult {
  readonly records: number;
  readonly ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
  readonly costs: Readonly<Record<Architecture, Cost>>;
}

export interface SettingResult {
  readonly setting: Setting;
  readonly predict: PredictResult | undefined;
  /** Fewest records first. */
  readonly batches: readonly BatchResult[];
}

export interface ExcludedSetting {
  readonly memoryMB: number;
  readonly reason: string;
}

export interface CostSettings {
  readonly memories: readonly number[];
  /** Of this machine. */
  readonly cores: number;
  /** What Lambda and Redis add to each call. */
  readonly overheadMs: number;
  /** function.timeoutSeconds of the job. */
  readonly timeoutSeconds: number;
}

const MB_PER_VCPU = 1_769;
const MILLION = 1_000_000;
/** A call that takes more of its time limit than this would fail on a slower day. */
const MOST_OF_TIMEOUT = 0.5;

function vCpusOf(memoryMB: number): number {
  return memoryMB / MB_PER_VCPU;
}

/** Each memory setting with each thread count that was measured and has a vCPU there. */
export function settingResults(
  points: readonly MeasuredPoint[],
  facts: Pick<ModelFacts, 'messageBytes' | 'requestBytes'>,
  { memories, cores, overheadMs, timeoutSeconds }: CostSettings,
): { results: SettingResult[]; excluded: ExcludedSetting[] } {
  const results: SettingResult[] = [];
  const excluded: ExcludedSetting[] = [];
  const threadCounts = [...new Set(points.map(({ threads }) => threads))].toSorted((a, b) => a - b);
  const least = Math.min(...points.map(({ neededMB }) => neededMB));
  for (const memoryMB of memories) {
    if (memoryMB < least) {
      excluded.push({ memoryMB, reason: `too little: the model needs ${least} MB` });
      continue;
    }
    const whole = threadsForMemory(memoryMB);
    for (const threads of threadCounts.filter((count) => count <= whole)) {
      const basis = whole > cores ? 'fewer cores' : vCpusOf(memoryMB) < 1 ? 'scaled' : 'measured';
      const setting: Setting = { memoryMB, threads, vCpus: vCpusOf(memoryMB), basis };
      const here = points.filter((point) => point.threads === threads && point.neededMB <= memoryMB);
      const predict = here.find(({ door }) => door === 'predict');
      const batches = here
        .filter(({ door }) => door === 'batch')
        .map((point) => batchResult(point, setting, facts, overheadMs))
        .filter(({ ms }) => ms <= timeoutSeconds * 1000 * MOST_OF_TIMEOUT)
        .toSorted((a, b) => a.records - b.records);
      results.push({
        setting,
        predict: predict && predictResult(predict, setting, facts, overheadMs),
        batches,
      });
    }
    if (whole > cores) {
      const reason = `${whole} vCPUs, this machine has ${cores}: not measured`;
      excluded.push({ memoryMB, reason });
    }
  }
  return { results, excluded };
}

function predictResult(
  { call }: MeasuredPoint,
  setting: Setting,
  { requestBytes }: Pick<ModelFacts, 'requestBytes'>,
  overheadMs: number,
): PredictResult {
  const { ms, p99Ms } = scaled(call, setting, overheadMs);
  return { ms, p99Ms, costs: costsOf((arch) => predictCost(ms, setting.memoryMB, requestBytes, arch)) };
}

function batchResult(
  { call, records }: MeasuredPoint,
  setting: Setting,
  { messageBytes }: Pick<ModelFacts, 'messageBytes'>,
  overheadMs: number,
): BatchResult {
  const { ms, p99Ms } = scaled(call, setting, overheadMs);
  const load = { ms, memoryMB: setting.memoryMB, records, messageBytes };
  return {
    records,
    ms,
    p99Ms,
    perSecond: (records * 1000) / ms,
    costs: costsOf((arch) => batchCost(load, arch)),
  };
}

function scaled({ median, p99 }: Times, { vCpus }: Setting, overheadMs: number) {
  const share = Math.min(1, vCpus);
  return { ms: median / share + overheadMs, p99Ms: p99 / share + overheadMs };
}

function costsOf(cost: (arch: Architecture) => Cost): Readonly<Record<Architecture, Cost>> {
  return Object.fromEntries(ARCHITECTURES.map((arch) => [arch, cost(arch)])) as Record<Architecture, Cost>;
}

/** Lambda counts whole milliseconds, rounded up. */
export function billedMs(ms: number): number {
  // 4.000000000001 is 4: what arithmetic leaves behind is nothing to pay for.
  return Math.ceil(Number(ms.toFixed(6)));
}

/** GB-seconds of so many calls. */
export function gigabyteSeconds(calls: number, ms: number, memoryMB: number): number {
  return calls * (ms / 1000) * (memoryMB / 1024);
}

/** A million requests of one record to POST /predict. */
export function predictCost(ms: number, memoryMB: number, requestBytes: number, arch: Architecture): Cost {
  const time = gigabyteSeconds(MILLION, billedMs(ms), memoryMB) * PRICES.perGBSecond[arch];
  const units = Math.max(1, Math.ceil(requestBytes / API_UNIT_BYTES));
  const requests = PRICES.invocationsPerMillion + units * PRICES.apiRequestsPerMillion;
  return { time, requests, total: time + requests };
}

interface BatchLoad {
  readonly ms: number;
  readonly memoryMB: number;
  readonly records: number;
  readonly messageBytes: number;
}

/** A million records through the queue, in full events. */
export function batchCost({ ms, memoryMB, records, messageBytes }: BatchLoad, arch: Architecture): Cost {
  const events = MILLION / records;
  const time = gigabyteSeconds(events, billedMs(ms), memoryMB) * PRICES.perGBSecond[arch];
  const invocations = PRICES.invocationsPerMillion / records;
  const requests = invocations + queueCost(records, messageBytes) + storeCost(messageBytes);
  return { time, requests, total: time + requests };
}

/** Sends and receives in tens where ten fit into one call, deletes in tens; of a million messages. */
function queueCost(records: number, messageBytes: number): number {
  // The pointer in place of a record that is too large.
  const bytes = messageBytes > LIMITS.messageBytes ? 1_000 : messageBytes;
  const fitting = Math.max(1, Math.min(LIMITS.sendEntries, Math.floor(LIMITS.messageBytes / bytes)));
  const units = (count: number) => Math.max(1, Math.ceil((count * bytes) / QUEUE_UNIT_BYTES)) / count;
  const received = Math.min(records, fitting);
  const deleted = Math.min(records, LIMITS.sendEntries);
  return (units(fitting) + units(received) + 1 / deleted) * PRICES.queueRequestsPerMillion;
}

function storeCost(messageBytes: number): number {
  return messageBytes > LIMITS.messageBytes ? PRICES.s3PutsPerMillion + PRICES.s3GetsPerMillion : 0;
}
