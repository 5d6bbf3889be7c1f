/**
 * In: what each setting takes and costs. Out: what config.yaml should say for two aims, and why.
 * Trap: predict and batch share function.memoryMB, threadPerModel and batchSize, so they are chosen together. The
 * cheapest is often the smallest and slowest by a hair; what costs up to 5 % more and is 1.2 times as fast is preferred.
 */
import type { Architecture } from '../../infra/prices.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { threadsForMemory } from '../../lib/inference/session.ts';
import type { BatchResult, PredictResult, Setting, SettingResult } from './cost.ts';

export type Traffic = 'predict' | 'batch' | 'both';
export type Aim = 'cheapest' | 'latency';

export interface Wishes {
  readonly arch: Architecture;
  readonly traffic: Traffic;
  /** p99 of a call, in ms. */
  readonly limitMs: number | undefined;
  /** The job as it is: what need not change stays. */
  readonly job: Pick<JobConfig, 'batchSize' | 'queue'>;
  /** False where records run one by one or the file fixes the rows: batchSize changes nothing then. */
  readonly hasFreeBatch: boolean;
}

/** Settings of config.yaml by their path. */
export type ConfigChange = Readonly<Record<string, number>>;

export interface Recommendation {
  readonly aim: Aim;
  readonly setting: Setting;
  readonly predict: PredictResult | undefined;
  readonly batch: BatchResult | undefined;
  readonly config: ConfigChange;
  /** One line each. */
  readonly reasons: readonly string[];
}

/** What is worth paying for being faster. */
const TOLERANCE = 1.05;
/** What is worth calling faster. */
const FASTER = 1.2;
/** SQS gathers more only in a window. */
const MOST_WITHOUT_WINDOW = 10;

interface Candidate {
  readonly setting: Setting;
  readonly predict: PredictResult | undefined;
  readonly batch: BatchResult | undefined;
  readonly cost: number;
  readonly ms: number;
  readonly p99Ms: number;
}

/** Undefined where no setting meets the limit, or nothing that is asked for was measured. */
export function recommend(
  aim: Aim,
  results: readonly SettingResult[],
  wishes: Wishes,
): Recommendation | undefined {
  const all = results
    .map((result) => candidateOf(aim, result, wishes))
    .filter((found) => found !== undefined);
  const candidates = trusted(aim, all);
  const { limitMs } = wishes;
  const isLimited = aim === 'latency' && limitMs !== undefined;
  const fitting = isLimited ? candidates.filter(({ p99Ms }) => p99Ms <= limitMs) : candidates;
  const cheapest = least(fitting, ({ cost }) => cost);
  if (!cheapest) return undefined;
  const isByCost = aim === 'cheapest' || isLimited;
  const best = isByCost
    ? worthPaying(fitting, cheapest)
    : (least(
        within(fitting, ({ ms }) => ms),
        ({ cost }) => cost,
      ) ?? cheapest);
  return {
    aim,
    setting: best.setting,
    predict: best.predict,
    batch: best.batch,
    config: configOf(aim, best, wishes),
    reasons: [
      settingReason(aim, best, cheapest, fitting.length, wishes),
      ...batchReasons(aim, best, results),
    ],
  };
}

/**
 * What was run with fewer cores than it would have is only better than nothing. And below one vCPU Lambda takes the
 * processor away for parts of the time: what that does to the slowest calls cannot be computed.
 */
function trusted(aim: Aim, all: readonly Candidate[]): readonly Candidate[] {
  const known = all.filter(({ setting }) => setting.basis !== 'fewer cores');
  const whole = known.filter(({ setting }) => setting.basis === 'measured');
  if (aim === 'latency' && whole.length > 0) return whole;
  return known.length > 0 ? known : all;
}

/** The setting with the batch it would take. */
function candidateOf(aim: Aim, result: SettingResult, wishes: Wishes): Candidate | undefined {
  const { arch, traffic } = wishes;
  const { setting } = result;
  const predict = traffic === 'batch' ? undefined : result.predict;
  const batch = traffic === 'predict' ? undefined : batchOf(aim, result, wishes);
  const parts = [...(traffic === 'batch' ? [] : [predict]), ...(traffic === 'predict' ? [] : [batch])];
  if (parts.includes(undefined)) return undefined;
  const whole = parts as (PredictResult | BatchResult)[];
  const cost = whole.reduce((sum, { costs }) => sum + costs[arch].total, 0);
  // Who asks and waits counts; a record of the queue waits anyway.
  const [first] = whole as [PredictResult | BatchResult];
  return { setting, predict, batch, cost, ms: first.ms, p99Ms: first.p99Ms };
}

/** As many records as it takes until more save less than the tolerance. */
function batchOf(
  aim: Aim,
  { batches }: SettingResult,
  { arch, limitMs, traffic }: Wishes,
): BatchResult | undefined {
  const isFast = ({ records, p99Ms }: BatchResult) =>
    records <= MOST_WITHOUT_WINDOW && (limitMs === undefined || traffic === 'predict' || p99Ms <= limitMs);
  const allowed = aim === 'latency' ? batches.filter(isFast) : batches;
  const fitting = allowed.length > 0 ? allowed : batches.slice(0, 1);
  return least(
    within(fitting, ({ costs }) => costs[arch].total),
    ({ records }) => records,
  );
}

function least<T>(items: readonly T[], number: (item: T) => number): T | undefined {
  return items.reduce<T | undefined>(
    (best, item) => (best === undefined || number(item) < number(best) ? item : best),
    undefined,
  );
}

/** The cheapest, or what costs hardly more and is faster by more than that. */
function worthPaying(fitting: readonly Candidate[], cheapest: Candidate): Candidate {
  const faster = within(fitting, ({ cost }) => cost).filter(({ ms }) => ms * FASTER <= cheapest.ms);
  return least(faster, ({ cost, ms }) => cost * ms) ?? cheapest;
}

function within<T>(items: readonly T[], number: (item: T) => number): readonly T[] {
  const lowest = Math.min(...items.map(number));
  return items.filter((item) => number(item) <= lowest * TOLERANCE);
}

function configOf(aim: Aim, { setting, batch }: Candidate, { job, hasFreeBatch }: Wishes): ConfigChange {
  const { memoryMB, threads } = setting;
  const change: Record<string, number> = {
    threadPerModel: threads === threadsForMemory(memoryMB) ? 0 : threads,
    'function.memoryMB': memoryMB,
  };
  if (!batch) return change;
  if (hasFreeBatch) change['batchSize'] = batch.records;
  change['queue.batchSize'] = batch.records;
  const { windowSeconds } = job.queue;
  if (batch.records > MOST_WITHOUT_WINDOW) change['queue.windowSeconds'] = Math.max(1, windowSeconds);
  else if (aim === 'latency') change['queue.windowSeconds'] = 0;
  return change;
}

function settingReason(
  aim: Aim,
  best: Candidate,
  cheapest: Candidate,
  count: number,
  wishes: Wishes,
): string {
  const { memoryMB, basis } = best.setting;
  const among = `of ${count} settings`;
  const how = basis === 'scaled' ? '; its time is computed from one vCPU' : '';
  if (basis === 'fewer cores')
    return `${memoryMB} MB: run with fewer cores than it has, for no setting that this machine can measure was left`;
  const limit =
    aim === 'latency' && wishes.limitMs !== undefined ? ` with a p99 of at most ${wishes.limitMs} ms` : '';
  if (count === 1) return `${memoryMB} MB: the only setting left to choose${limit}${how}`;
  if (aim === 'latency' && wishes.limitMs === undefined) {
    return `${memoryMB} MB: the lowest latency ${among}, or less than 5 % above it and cheaper${how}`;
  }
  if (best === cheapest) return `${memoryMB} MB: the cheapest ${among}${limit}${how}`;
  const dearer = Math.ceil((best.cost / cheapest.cost - 1) * 100);
  const faster = (cheapest.ms / best.ms).toFixed(1);
  return `${memoryMB} MB: ${dearer} % dearer than the cheapest ${among}${limit} (${cheapest.setting.memoryMB} MB), and ${faster} times as fast${how}`;
}

function batchReasons(aim: Aim, { setting, batch }: Candidate, results: readonly SettingResult[]): string[] {
  if (!batch) return [];
  const { records, ms } = batch;
  const others = results.find((result) => result.setting === setting)?.batches ?? [];
  const larger = others.filter((other) => other.records > records);
  const why =
    aim === 'latency'
      ? 'no window, so that no record waits for others'
      : larger.length > 0
        ? 'more save less than 5 %'
        : 'the most that was measured';
  const fill =
    records > MOST_WITHOUT_WINDOW
      ? `; full events need ${records} records a second and more, a longer window fewer`
      : '';
  const what = records === 1 ? 'one record an event' : `${records} records an event`;
  return [`${what}, ${ms.toPrecision(3)} ms: ${why}${fill}`];
}
