/**
 * Judges a canary by what it and the version that serves have answered. It is looked at again and again, and each look could err:
 * so it is looked at when 200 answers of each are there, then 400, 800 and so on, and the error that is allowed of all looks
 * together, 5 %, is shared among them.
 */
import type { SideCounts, TrialSums } from '../../lib/metrics/trial.ts';

export interface Judgement {
  /** `not enough`: it has not been looked at yet. */
  readonly verdict: 'not enough' | 'no worse' | 'roll back';
  readonly reason: string;
  /** Looks so far. */
  readonly looks: number;
}

/** Answers of each version at the first look. */
const FIRST_LOOK = 200;
/** The probability that a canary that is as good is ever rolled back by its answers. */
const ALLOWED_ERROR = 0.05;
/** Two things are looked at: failures and times. */
const THINGS = 2;
/** Buckets of a factor of 1.5 between times: they grow by 2^(1/8). */
const SLOWER_BUCKETS = 5;
const SLOW_SHARE = 0.05;
/** Environments that ended, or could not open the canary. */
const MOST_LOST = 3;

/** @param looks that it has had */
export function judge(sums: TrialSums, looks: number): Judgement {
  const lost = openingProblem(sums);
  if (lost !== undefined) return { verdict: 'roll back', reason: lost, looks };
  const { serving, canary } = sums;
  const [before, after] = [answeredBy(serving), answeredBy(canary)];
  const fewer = Math.min(before, after);
  const due = fewer < FIRST_LOOK ? 0 : Math.floor(Math.log2(fewer / FIRST_LOOK)) + 1;
  const counts = `${after} answers of the canary, ${before} of the version that serves`;
  if (due === 0)
    return { verdict: 'not enough', reason: `${counts}; ${FIRST_LOOK} of each are needed`, looks };
  const text = `${counts}: ${failureText(canary)} against ${failureText(serving)}`;
  if (due <= looks) return { verdict: 'no worse', reason: text, looks };
  // 1/2 + 1/6 + 1/12 + … of it, which add up to all of it.
  const error = ALLOWED_ERROR / THINGS / (due * (due + 1));
  const [failed, failedBefore] = [failuresOf(canary), failuresOf(serving)];
  const isWorse = moreFailures(failed, after, failedBefore, before) < error;
  if (isWorse) return { verdict: 'roll back', reason: `it fails more often: ${text}`, looks: due };
  const slow = slowness(serving, canary);
  const isSlower = slow !== undefined && atLeast(slow.slower, slow.requests, SLOW_SHARE) < error;
  if (isSlower)
    return {
      verdict: 'roll back',
      reason: `its slowest requests take over 1.5 times as long: ${slow.slower} of ${slow.requests} are slower than 1.5 times the 95th percentile of the version that serves, where 1 of 20 may be`,
      looks: due,
    };
  return { verdict: 'no worse', reason: text, looks: due };
}

/** Environments that opened the canary and were not heard of again, or refused it. */
function openingProblem({ openings: { began, opened, refused } }: TrialSums): string | undefined {
  if (refused >= MOST_LOST && refused > opened)
    return `${refused} of ${began} environments could not open it; their logs say why`;
  return undefined;
}

/** Openings without an end. Those of environments that are just opening it are among them. */
export function unended({ openings: { began, opened, refused } }: TrialSums): number {
  return began - opened - refused;
}

/** @param before openings without an end a minute ago. @returns why the canary cannot stay, where environments end while they open it */
export function endedEnvironments(sums: TrialSums, before: number): string | undefined {
  const now = unended(sums);
  const { began, opened } = sums.openings;
  if (Math.min(before, now) < MOST_LOST || now <= opened) return undefined;
  return `${now} of ${began} environments ended while they opened it: memory for both versions may be too little`;
}

function failuresOf({ failures }: SideCounts): number {
  return [...failures.values()].reduce((all, count) => all + count, 0);
}

function answeredBy(side: SideCounts): number {
  return side.answers + failuresOf(side);
}

function failureText(side: SideCounts): string {
  const failed = failuresOf(side);
  const codes = [...side.failures].sort((a, b) => b[1] - a[1]).map(([code, count]) => `${count} ${code}`);
  const all = answeredBy(side);
  const percent = all === 0 ? 0 : Number(((100 * failed) / all).toPrecision(2));
  return `${percent} % failed${codes.length > 0 ? ` (${codes.slice(0, 3).join(', ')})` : ''}`;
}

interface Slowness {
  readonly requests: number;
  readonly slower: number;
}

/** Undefined where either has answered fewer requests over HTTPS than are looked at. */
function slowness(serving: SideCounts, canary: SideCounts): Slowness | undefined {
  const [before, after] = [sum(serving.buckets), sum(canary.buckets)];
  if (Math.min(before, after) < FIRST_LOOK) return undefined;
  const limit = percentileBucket(serving.buckets, before * (1 - SLOW_SHARE)) + SLOWER_BUCKETS;
  const slower = sum(new Map([...canary.buckets].filter(([bucket]) => bucket > limit)));
  return { requests: after, slower };
}

function sum(buckets: ReadonlyMap<number, number>): number {
  return [...buckets.values()].reduce((all, count) => all + count, 0);
}

function percentileBucket(buckets: ReadonlyMap<number, number>, rank: number): number {
  let seen = 0;
  let last = 0;
  for (const [bucket, count] of [...buckets].sort((a, b) => a[0] - b[0])) {
    last = bucket;
    seen += count;
    if (seen >= rank) break;
  }
  return last;
}

/**
 * Fisher's exact test, one-sided.
 * @returns how likely `failed` or more of the failures fall to the canary, if both versions fail equally often
 */
export function moreFailures(failed: number, all: number, failedBefore: number, before: number): number {
  const failures = failed + failedBefore;
  const ways = logChoose(all + before, failures);
  let likely = 0;
  // Up to the mean the terms grow, and fall from there on.
  for (let k = failed; k <= Math.min(failures, all); k++) {
    const term = Math.exp(logChoose(all, k) + logChoose(before, failures - k) - ways);
    likely += term;
    if (k > (failures * all) / (all + before) && term <= likely * 1e-12) break;
  }
  return Math.min(1, likely);
}

/** @returns how likely `hits` or more of `all` happen, if each does with this probability */
export function atLeast(hits: number, all: number, probability: number): number {
  let likely = 0;
  for (let k = hits; k <= all; k++) {
    const term = Math.exp(
      logChoose(all, k) + k * Math.log(probability) + (all - k) * Math.log1p(-probability),
    );
    likely += term;
    if (k > all * probability && term <= likely * 1e-12) break;
  }
  return Math.min(1, likely);
}

function logChoose(all: number, some: number): number {
  if (some < 0 || some > all) return Number.NEGATIVE_INFINITY;
  return logFactorial(all) - logFactorial(some) - logFactorial(all - some);
}

/** Stirling's series, exact to 1e-9 from 10 on. */
function logFactorial(n: number): number {
  let below = 0;
  for (let k = 2; k <= Math.min(n, 9); k++) below += Math.log(k);
  if (n < 10) return below;
  return (
    n * Math.log(n) -
    n +
    Math.log(2 * Math.PI * n) / 2 +
    1 / (12 * n) -
    1 / (360 * n ** 3) +
    1 / (1260 * n ** 5)
  );
}
