/**
 * Measures contenders that do the same work in different ways. Machines drift (other processes, clock rates, caches), so
 * contenders take turns in short blocks, in another order every round, and only what was measured side by side is compared.
 */
import { elementAt, present } from '../lib/contract/present.ts';
import { randomNumbers } from './models.ts';

/** One way to do the work. */
export interface Contender<Answer = unknown> {
  readonly name: string;
  /** Not timed: gets ready what the next `calls` calls will take. */
  readonly prepare?: (calls: number) => void | Promise<void>;
  /** Timed, one after the other; `index` counts from 0 in its block. */
  readonly call: (index: number) => Answer | Promise<Answer>;
  /** Not timed: throws when an answer is wrong. Sees the answers of all calls of a block, in order. */
  readonly verify: (answers: readonly Answer[]) => void | Promise<void>;
}

interface Plan {
  readonly repeats: number;
  /** Timed calls of one contender in one repeat, ms. */
  readonly repeatMs: number;
  /** Timed calls of one block, ms; default 20. */
  readonly blockMs?: number;
  /**
   * Collects garbage before each block, not timed: for a `prepare` that makes much of it. Needs --expose-gc. Blocks must then
   * be long enough that a contender's own garbage is collected in its own time.
   */
  readonly collect?: boolean;
  /** Not timed: after each repeat. */
  readonly between?: () => Promise<void>;
}

/** Latencies of one contender in ms, ascending, one array per repeat. */
export interface Measured {
  readonly name: string;
  readonly repeats: readonly Float64Array[];
  /** Processor time of one call in ms, all threads of this process, one number per repeat: other processes hardly touch it. */
  readonly cpuMs: readonly number[];
}

const BLOCK_MS = 20;
const ORDER_SEED = 7;
const MAX_BLOCK_CALLS = 2_000;
const WARM_UP_MS = 250;
const MIN_WARM_UP_CALLS = 6;

export async function interleave(contenders: readonly Contender[], plan: Plan): Promise<Measured[]> {
  if (plan.collect && !globalThis.gc) throw new Error('this scenario needs node --expose-gc');
  const entries = [];
  for (const contender of contenders) {
    const callMs = await warmUp(contender);
    const calls = Math.min(MAX_BLOCK_CALLS, Math.max(1, Math.round((plan.blockMs ?? BLOCK_MS) / callMs)));
    const blocks = Math.max(1, Math.ceil(plan.repeatMs / (calls * callMs)));
    entries.push({
      contender,
      calls,
      blocks,
      repeats: new Array<Float64Array>(),
      cpuMs: new Array<number>(),
    });
  }
  await plan.between?.();
  const random = randomNumbers(ORDER_SEED);
  const rounds = Math.max(...entries.map(({ blocks }) => blocks));
  for (let repeat = 0; repeat < plan.repeats; repeat++) {
    const taken = new Map(entries.map(({ contender }) => [contender, { ms: new Array<number>(), cpuMs: 0 }]));
    for (let round = 0; round < rounds; round++) {
      for (const { contender, calls, blocks } of shuffled(entries, random)) {
        // A contender with few, long blocks is spread over the rounds of the others.
        if (Math.floor(((round + 1) * blocks) / rounds) === Math.floor((round * blocks) / rounds)) continue;
        const { latencies, cpuMs } = await block(contender, calls, plan.collect);
        const all = present(taken.get(contender), 'entry of taken');
        all.cpuMs += cpuMs;
        for (const ms of latencies) all.ms.push(ms);
      }
    }
    for (const { contender, repeats, cpuMs } of entries) {
      const all = present(taken.get(contender), 'entry of taken');
      repeats.push(Float64Array.from(all.ms).sort());
      cpuMs.push(all.cpuMs / all.ms.length);
    }
    await plan.between?.();
  }
  return entries.map(({ contender: { name }, repeats, cpuMs }) => ({ name, repeats, cpuMs }));
}

export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}

/** @returns ms of one call, by the median of the warm second half */
async function warmUp(contender: Contender): Promise<number> {
  const latencies: number[] = [];
  let spentMs = 0;
  for (let calls = 1; spentMs < WARM_UP_MS || latencies.length < MIN_WARM_UP_CALLS; calls *= 2) {
    const size = Math.min(calls, spentMs > 0 ? Math.ceil((WARM_UP_MS * latencies.length) / spentMs) : 1);
    for (const ms of (await block(contender, Math.min(size, MAX_BLOCK_CALLS))).latencies) {
      latencies.push(ms);
      spentMs += ms;
    }
  }
  return quantile(Float64Array.from(latencies.slice(latencies.length >> 1)).sort(), 0.5);
}

interface Block {
  readonly latencies: Float64Array;
  readonly cpuMs: number;
}

async function block(contender: Contender, calls: number, collect = false): Promise<Block> {
  await contender.prepare?.(calls);
  if (collect) globalThis.gc?.();
  const answers = new Array<unknown>(calls);
  const latencies = new Float64Array(calls);
  const cpuBegin = process.cpuUsage();
  for (let index = 0; index < calls; index++) {
    const begin = performance.now();
    const answer = contender.call(index);
    // A result that is already there does not wait for a turn of the microtask queue.
    answers[index] = answer instanceof Promise ? await answer : answer;
    latencies[index] = performance.now() - begin;
  }
  const { user, system } = process.cpuUsage(cpuBegin);
  await contender.verify(answers);
  return { latencies, cpuMs: (user + system) / 1000 };
}

/** @param sorted ascending, not empty; the nearest rank */
export function quantile(sorted: Float64Array, share: number): number {
  if (sorted.length === 0) throw new Error('nothing was measured');
  return elementAt(
    sorted,
    Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1)),
    'sorted',
  );
}

/** One number over all repeats. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  return { median: quantile(sorted, 0.5), low: quantile(sorted, 0), high: quantile(sorted, 1) };
}

/** Calls a second while it was at work. */
export function rateOf(latencies: Float64Array): number {
  let totalMs = 0;
  for (const ms of latencies) totalMs += ms;
  return (latencies.length * 1000) / totalMs;
}

/** `numbers` of two contenders, repeat by repeat: what was measured in the same seconds is compared. */
export function pairwise(
  ours: readonly number[],
  raw: readonly number[],
  combine: (ours: number, raw: number) => number,
): Spread {
  return spreadOf(ours.map((value, repeat) => combine(value, elementAt(raw, repeat, 'raw'))));
}
