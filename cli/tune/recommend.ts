/**
 * Recommends settings for config.yaml for two aims, with reasons. predict and batch share function.memoryMB,
 * threadPerModel and batchSize, so these are chosen together. The cheapest setting is often only slightly cheaper
 * than a much faster one, so a setting that costs up to 5 % more and is at least 1.2 times as fast is preferred.
 */

import type { JobConfig } from '../../lib/config/job.ts';
import type { Architecture } from '../../lib/contract/prices.ts';
import { threadsForMemory } from '../../lib/inference/threads.ts';
import type { CallResult, Setting, SettingResult } from './cost.ts';

export type Traffic = 'predict' | 'batch' | 'both';
export type Aim = 'cheapest' | 'latency';

export interface Wishes {
  readonly arch: Architecture;
  readonly traffic: Traffic;
  /** p99 of a call, in ms. */
  readonly limitMs: number | undefined;
  /** The current job, whose settings stay if they need no change. */
  readonly job: Pick<JobConfig, 'batchSize' | 'queue'>;
  /** False when records run one by one or the file fixes the rows, so that batchSize has no effect. */
  readonly hasFreeBatch: boolean;
}

/** Settings of config.yaml by their path. */
export type ConfigChange = Readonly<Record<string, number>>;

export type Recommendation = NonNullable<ReturnType<typeof recommend>>;

/** The price worth paying for a faster setting. */
const TOLERANCE = 1.05;
/** The speed-up that makes a setting faster. */
const FASTER = 1.2;
/** SQS collects more messages only with a window. */
const MOST_WITHOUT_WINDOW = 10;

interface Candidate {
  readonly setting: Setting;
  readonly predict: CallResult | undefined;
  readonly batch: CallResult | undefined;
  readonly cost: number;
  readonly ms: number;
  readonly p99Ms: number;
}

/** Returns undefined when no setting meets the limit, or nothing relevant was measured. */
export function recommend(aim: Aim, results: readonly SettingResult[], wishes: Wishes) {
  const all = results.flatMap((result) => candidateOf(aim, result, wishes) ?? []);
  const candidates = trusted(aim, all);
  const limitMs = aim === 'latency' ? wishes.limitMs : undefined;
  const fitting = candidates.filter(({ p99Ms }) => limitMs === undefined || p99Ms <= limitMs);
  const cheapest = least(fitting, ({ cost }) => cost);
  if (!cheapest) return undefined;
  const fastest = within(fitting, ({ ms }) => ms);
  const isByCost = aim === 'cheapest' || limitMs !== undefined;
  const best = isByCost ? worthPaying(fitting, cheapest) : (least(fastest, ({ cost }) => cost) ?? cheapest);
  const { setting, predict, batch } = best;
  const reason = settingReason(best, cheapest, fitting.length, isByCost, limitMs);
  const others = results.find((result) => result.setting === setting)?.batches ?? [];
  const reasons = [reason, ...(batch ? [batchReason(aim, batch, others)] : [])];
  return { aim, setting, predict, batch, config: configOf(aim, best, wishes), reasons };
}

/**
 * A setting that was run with fewer cores than Lambda gives was not measured, so it is shown and never recommended.
 * Below one vCPU Lambda pauses the process, and the effect on the slowest calls cannot be computed.
 */
function trusted(aim: Aim, all: readonly Candidate[]): readonly Candidate[] {
  const known = all.filter(({ setting }) => setting.basis !== 'fewer cores');
  const whole = known.filter(({ setting }) => setting.basis === 'measured');
  if (aim === 'latency' && whole.length > 0) return whole;
  return known;
}

/** The setting with its best batch. */
function candidateOf(aim: Aim, result: SettingResult, wishes: Wishes): Candidate | undefined {
  const { arch, traffic } = wishes;
  const predict = traffic === 'batch' ? undefined : result.predict;
  const batch = traffic === 'predict' ? undefined : batchOf(aim, result, wishes);
  // A client of predict waits for its answer, so its time counts; a record of the queue waits anyway.
  const first = traffic === 'batch' ? batch : predict;
  if (!first || (traffic === 'both' && !batch)) return undefined;
  const cost = (predict?.costs[arch].total ?? 0) + (batch?.costs[arch].total ?? 0);
  return { setting: result.setting, predict, batch, cost, ms: first.ms, p99Ms: first.p99Ms };
}

/** The smallest batch beyond which the savings are below the tolerance. */
function batchOf(
  aim: Aim,
  { batches }: SettingResult,
  { arch, limitMs = Number.POSITIVE_INFINITY }: Wishes,
): CallResult | undefined {
  const fast = batches.filter(({ records, p99Ms }) => records <= MOST_WITHOUT_WINDOW && p99Ms <= limitMs);
  const allowed = aim === 'latency' ? fast : batches;
  const fitting = allowed.length > 0 ? allowed : batches.slice(0, 1);
  const cheap = within(fitting, ({ costs }) => costs[arch].total);
  return least(cheap, ({ records }) => records);
}

function least<T>(items: readonly T[], number: (item: T) => number): T | undefined {
  const lowest = Math.min(...items.map(number));
  return items.find((item) => number(item) === lowest);
}

/** The cheapest setting, or one that is hardly more expensive but much faster. */
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

/** @param count of the settings to choose from */
function settingReason(
  { setting, cost, ms }: Candidate,
  cheapest: Candidate,
  count: number,
  isByCost: boolean,
  limitMs: number | undefined,
): string {
  const { memoryMB, basis } = setting;
  const how = basis === 'scaled' ? '; its time is computed from one vCPU' : '';
  const limit = limitMs === undefined ? '' : ` with a p99 of at most ${limitMs} ms`;
  const among = `of ${count} settings${limit}`;
  if (count === 1) return `${memoryMB} MB: the only setting left to choose${limit}${how}`;
  if (!isByCost) {
    return `${memoryMB} MB: the lowest latency ${among}, or less than 5 % above it and cheaper${how}`;
  }
  if (setting === cheapest.setting) return `${memoryMB} MB: the cheapest ${among}${how}`;
  const dearer = Math.ceil((cost / cheapest.cost - 1) * 100);
  const faster = (cheapest.ms / ms).toFixed(1);
  return `${memoryMB} MB: ${dearer} % dearer than the cheapest ${among} (${cheapest.setting.memoryMB} MB), and ${faster} times as fast${how}`;
}

function batchReason(aim: Aim, { records, ms }: CallResult, others: readonly CallResult[]): string {
  const isLargest = others.every((other) => other.records <= records);
  const byCost = isLargest ? 'the most that was measured' : 'more save less than 5 %';
  const why = aim === 'latency' ? 'no window, so that no record waits for others' : byCost;
  const fill = `; full events need ${records} records a second and more, a longer window fewer`;
  const what = records === 1 ? 'one record an event' : `${records} records an event`;
  return `${what}, ${ms.toPrecision(3)} ms: ${why}${records > MOST_WITHOUT_WINDOW ? fill : ''}`;
}
