/**
 * Computes the time of a call and the cost of a million predictions at a memory setting. Lambda's processor time is
 * proportional to memory: below one vCPU the measured time is divided by the share, which is computed, not measured.
 * Above the cores of this machine there is no data to compute from.
 */

import { LIMITS } from '../../lib/contract/limits.ts';
import type { Architecture } from '../../lib/contract/prices.ts';
import { API_UNIT_BYTES, ARCHITECTURES, PRICES, QUEUE_UNIT_BYTES } from '../../lib/contract/prices.ts';
import { threadsForMemory } from '../../lib/inference/threads.ts';
import { billedMs, gigabyteSeconds } from '../../lib/metrics/cost.ts';
import type { MeasuredPoint, ModelFacts } from './points.ts';

/** In dollars, per million predictions. */
interface Cost {
  /** GB-seconds of Lambda. */
  readonly time: number;
  /** Invocations, and requests of the HTTP API, or of SQS and S3. */
  readonly requests: number;
  readonly total: number;
}

export interface Setting {
  /** function.memoryMB */
  readonly memoryMB: number;
  /** Threads of one run; 0 is threadPerModel's one per vCPU. */
  readonly threads: number;
  readonly vCpus: number;
  /**
   * measured: as measured here. scaled: below one vCPU, divided by the share. fewer cores: with the cores of this
   * machine, which are fewer than Lambda would give.
   */
  readonly basis: 'measured' | 'scaled' | 'fewer cores';
}

type Costs = Readonly<Record<Architecture, Cost>>;

/** A call of POST /predict with one record, or of the batch function with an event. */
export interface CallResult {
  readonly records: number;
  readonly ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
  readonly costs: Costs;
}

export interface SettingResult {
  readonly setting: Setting;
  readonly predict: CallResult | undefined;
  /** Fewest records first. */
  readonly batches: readonly CallResult[];
}

export interface CostSettings {
  readonly memories: readonly number[];
  /** The cores of this machine. */
  readonly cores: number;
  /** The time that Lambda and Redis add to each call. */
  readonly overheadMs: number;
  readonly timeoutSeconds: number;
}

export const MB_PER_VCPU = 1_769;
const LEAST_MEMORY_MB = 128;
const MILLION = 1_000_000;
/** A call above this share of its time limit may fail when Lambda is slower. */
const MOST_OF_TIMEOUT = 0.5;

/** Each memory setting with each measured thread count that has a vCPU there. */
export function settingResults(
  points: readonly MeasuredPoint[],
  facts: Pick<ModelFacts, 'messageBytes' | 'requestBytes'>,
  { memories, cores, overheadMs, timeoutSeconds }: CostSettings,
) {
  const results: SettingResult[] = [];
  const excluded: { readonly memoryMB: number; readonly reason: string }[] = [];
  const threadCounts = [...new Set(points.map(({ threads }) => threads))].toSorted((a, b) => a - b);
  const least = Math.min(...points.map(({ neededMB }) => neededMB));
  for (const memoryMB of memories) {
    if (memoryMB < least) {
      excluded.push({ memoryMB, reason: `too little: the model needs ${least} MB` });
      continue;
    }
    const whole = threadsForMemory(memoryMB);
    const vCpus = memoryMB / MB_PER_VCPU;
    const basis = whole > cores ? 'fewer cores' : vCpus < 1 ? 'scaled' : 'measured';
    for (const threads of threadCounts.filter((count) => count <= whole)) {
      const setting: Setting = { memoryMB, threads, vCpus, basis };
      const here = points.filter((point) => point.threads === threads && point.neededMB <= memoryMB);
      const calls = here.map((point) => [point, callResult(point, setting, facts, overheadMs)] as const);
      const mostMs = timeoutSeconds * 1000 * MOST_OF_TIMEOUT;
      const batches = calls
        .flatMap(([{ endpoint }, result]) => (endpoint === 'batch' && result.ms <= mostMs ? [result] : []))
        .toSorted((a, b) => a.records - b.records);
      results.push({
        setting,
        predict: calls.find(([{ endpoint }]) => endpoint === 'predict')?.[1],
        batches,
      });
    }
    if (whole > cores) {
      excluded.push({ memoryMB, reason: `${whole} vCPUs, this machine has ${cores}: not measured` });
    }
  }
  return { results, excluded };
}

function callResult(
  { endpoint, call, records }: MeasuredPoint,
  { memoryMB }: Setting,
  { requestBytes, messageBytes }: Pick<ModelFacts, 'messageBytes' | 'requestBytes'>,
  overheadMs: number,
): CallResult {
  const ms = msAt(call.median, memoryMB) + overheadMs;
  const p99Ms = msAt(call.p99, memoryMB) + overheadMs;
  const costs = ARCHITECTURES.map((arch) => {
    const batch = () => batchCost({ ms, memoryMB, records, messageBytes }, arch);
    return [arch, endpoint === 'predict' ? predictCost(ms, memoryMB, requestBytes, arch) : batch()] as const;
  });
  return { records, ms, p99Ms, perSecond: (records * 1000) / ms, costs: Object.fromEntries(costs) as Costs };
}

/** The least memory of a function in MB that holds this peak. */
export function memoryForPeak(peakMB: number): number {
  return Math.max(LEAST_MEMORY_MB, Math.ceil(peakMB));
}

/** The time with at least one vCPU, at a memory setting that may give less. */
export function msAt(ms: number, memoryMB: number): number {
  return ms / Math.min(1, memoryMB / MB_PER_VCPU);
}

/** Requests that find no environment: their share, and the INIT and run of each in ms. */
interface ColdStarts {
  readonly share: number;
  readonly ms: number;
}

/** A million requests of one record to POST /predict. @param starts default: every environment is warm */
export function predictCost(
  ms: number,
  memoryMB: number,
  requestBytes: number,
  arch: Architecture,
  starts: ColdStarts = { share: 0, ms: 0 },
): Cost {
  const meanMs = (1 - starts.share) * billedMs(ms) + starts.share * billedMs(starts.ms);
  const time = gigabyteSeconds(MILLION, meanMs, memoryMB) * PRICES.perGBSecond[arch];
  const units = Math.max(1, Math.ceil(requestBytes / API_UNIT_BYTES));
  const requests = PRICES.invocationsPerMillion + units * PRICES.apiRequestsPerMillion;
  return { time, requests, total: time + requests };
}

/** A million records through the queue, in full events. */
export function batchCost(
  { ms, memoryMB, records, messageBytes }: Record<'ms' | 'memoryMB' | 'records' | 'messageBytes', number>,
  arch: Architecture,
): Cost {
  const events = MILLION / records;
  const time = gigabyteSeconds(events, billedMs(ms), memoryMB) * PRICES.perGBSecond[arch];
  const invocations = PRICES.invocationsPerMillion / records;
  const isStored = messageBytes > LIMITS.messageBytes;
  const store = isStored ? PRICES.s3PutsPerMillion + PRICES.s3GetsPerMillion : 0;
  const requests = invocations + queueCost(records, messageBytes) + store;
  return { time, requests, total: time + requests };
}

/** Requests per message: sends and receives in batches of up to ten that fit into one call, deletes in tens. */
function queueCost(records: number, messageBytes: number): number {
  // A record that is too large is sent as a pointer.
  const bytes = messageBytes > LIMITS.messageBytes ? 1_000 : messageBytes;
  const fitting = Math.max(1, Math.min(LIMITS.sendEntries, Math.floor(LIMITS.messageBytes / bytes)));
  const units = (count: number) => Math.max(1, Math.ceil((count * bytes) / QUEUE_UNIT_BYTES)) / count;
  const received = Math.min(records, fitting);
  const deleted = Math.min(records, LIMITS.sendEntries);
  return (units(fitting) + units(received) + 1 / deleted) * PRICES.queueRequestsPerMillion;
}
