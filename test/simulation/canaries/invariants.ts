/** The invariants of the pointer, and of the versions that share the records while a canary runs. */
import { trialSums } from '../../../lib/metrics/trial.ts';
import type { Activation } from '../../../lib/registry/pointer.ts';
import type { History } from '../history.ts';
import type { Flaw } from '../models/inference.ts';
import type { Invariant, Violation } from '../violation.ts';
import type { LookFact, PointerFact } from './facts.ts';

/**
 * Each change of the pointer is one that an operator or the scheduled look may make of the pointer that it replaces, so none is
 * made of an older one; who was told that it was done did it once, and who was refused did nothing; the last version of the
 * history serves.
 */
export const onePointer: Invariant = ({ canaries: { pointers, orders } }) => {
  const violations: Violation[] = [];
  const broken = (text: string, atMs: number) =>
    violations.push({ invariant: 'one pointer', text, atMs, about: [] });
  for (const [i, next] of pointers.entries()) {
    const before = pointers[i - 1];
    const change = before ? changeOf(before, next) : 'push';
    if (next.history.at(-1)?.version !== next.version)
      broken(`the history ends with another version than ${next.version}, which serves`, next.atMs);
    if (change === undefined) broken(`${next.by} made of the pointer what no order makes of it`, next.atMs);
    else if (next.by.startsWith('trials') ? change !== 'end' : !next.by.startsWith('operator'))
      broken(`${next.by} made the change "${change}"`, next.atMs);
  }
  for (const { by, what, error } of orders) {
    const made = pointers.filter((one) => one.by === by);
    const last = made.at(-1)?.atMs ?? 0;
    if (made.length > 1) broken(`the ${what} of ${by} changed the pointer ${made.length} times`, last);
    if ((error === 'conflict' || error === 'not_found') && made.length > 0)
      broken(`the ${what} of ${by} was refused (${error}), and changed the pointer`, last);
    if (error === undefined && made.length === 0 && (what === 'canary' || what === 'promote'))
      broken(`the ${what} of ${by} was done, and the pointer is as it was`, last);
  }
  return violations;
};

/** Undefined for what nobody may do. */
function changeOf(
  before: PointerFact,
  next: PointerFact,
): 'push' | 'begin' | 'end' | 'back' | 'same' | undefined {
  const isSame = next.version === before.version && sameHistory(next.history, before.history);
  const [old, now] = [before.canary, next.canary];
  if (old && now) {
    const isOld = old.version === now.version && old.since === now.since && old.share === now.share;
    return isSame && isOld ? 'same' : undefined;
  }
  if (now) return isSame && now.version !== next.version ? 'begin' : undefined;
  const isAdded = sameHistory(next.history.slice(0, -1), before.history.slice(1 - MOST_HISTORY));
  if (old) {
    const { version, end } = next.ended ?? {};
    if (version !== old.version) return undefined;
    if (end === 'rolled back') return isSame ? 'end' : undefined;
    return next.version === old.version && isAdded ? 'push' : undefined;
  }
  if (isSame) return 'same';
  if (isAdded) return 'push';
  return sameHistory(next.history, before.history.slice(0, next.history.length)) ? 'back' : undefined;
}

const MOST_HISTORY = 50;

function sameHistory(one: readonly Activation[], other: readonly Activation[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * An environment runs the version that serves and the canary of the pointer that it read last; instead of the first also the one
 * that served in a pointer which it read before, because another may not be open yet. Nothing else runs.
 */
export const noThirdVersion: Invariant = (history) => {
  const violations: Violation[] = [];
  const known = new Map<string, { last: PointerFact; atMs: number; readonly served: Set<string> }>();
  for (const one of history.canaries.seen) {
    const held = known.get(one.process);
    if (one.kind === 'looked') {
      const served = held?.served ?? new Set();
      served.add(one.pointer.version);
      known.set(one.process, { last: one.pointer, atMs: one.atMs, served });
      continue;
    }
    const allowed = [...(held?.served ?? []), held?.last.canary?.version].map(
      (id) => history.canaries.versions.get(id ?? '')?.number,
    );
    if (allowed.includes(one.version) || isTroubled(history, held?.atMs ?? 0, one.atMs)) continue;
    violations.push({
      invariant: 'no third version',
      text: `${one.process} ran record ${one.numbers.join(', ')} by version ${one.version}, which its pointer does not name`,
      atMs: one.atMs,
      about: [],
    });
  }
  return violations;
};

/** An answer of S3 that is late is given up. */
function isTroubled({ troubles }: History, fromMs: number, toMs: number): boolean {
  return troubles.some(
    (one) =>
      (one.what === 's3' || one.what === 'network') && one.fromMs <= toMs && one.toMs >= fromMs - 8_000,
  );
}

/**
 * Two runs of one key are of one side, in all environments that have the canary open and know of it. One counts from its first run
 * of a record by the canary until it reads a pointer without it: before that, all its records are of the version that serves.
 */
export const keyKeepsSide: Invariant = ({ canaries: { seen, keys, versions } }) => {
  const violations: Violation[] = [];
  const canaryOf = new Map<string, string>();
  const open = new Set<string>();
  const sides = new Map<string, Map<string, number>>();
  for (const one of seen) {
    const { process } = one;
    if (one.kind === 'looked') {
      const canary = one.pointer.canary?.version;
      if (canaryOf.get(process) === canary) continue;
      open.delete(process);
      if (canary === undefined) canaryOf.delete(process);
      else canaryOf.set(process, canary);
      continue;
    }
    const canary = canaryOf.get(process);
    if (canary === undefined) continue;
    if (versions.get(canary)?.number === one.version) open.add(process);
    if (!open.has(process)) continue;
    const known = sides.get(canary) ?? new Map<string, number>();
    sides.set(canary, known);
    for (const number of one.numbers) {
      const key = keys.get(number);
      if (key === undefined) continue;
      const before = known.get(key) ?? one.version;
      known.set(key, before);
      if (before === one.version) continue;
      const text = `the key ${key} was of version ${before}, and is of version ${one.version} in ${process} while the canary ${canary} runs`;
      violations.push({ invariant: 'a key keeps its side', text, atMs: one.atMs, about: [] });
    }
  }
  return violations;
};

/** Looks that ended before a canary is rolled back. */
const MOST_ATTEMPTS = 2;

/** The scheduled look that finds a canary bad, and answers, ends it. */
export const badCanaryEnds: Invariant = ({ canaries }) => {
  const violations: Violation[] = [];
  const unended = new Map<string, number>();
  const passed = new Map<string, number>();
  for (const look of canaries.looks) {
    const { canary, endedMs } = look;
    if (!canary) continue;
    const name = `${canary.version} ${canary.since}`;
    const flaw = canaries.versions.get(canary.version)?.flaw;
    const why = badness(look, flaw, unended.get(name) ?? 0);
    unended.set(name, leastUnended(look));
    const now = canaries.pointers.findLast(({ atMs }) => atMs <= endedMs)?.canary;
    if (why === undefined || now?.version !== canary.version || now.since !== canary.since) continue;
    // A look that begins within the time limit of one that was ended takes it for one that still asks: once after each.
    const passes = passed.get(name) ?? 0;
    if (flaw === 'ends' && passes < MOST_ATTEMPTS) {
      passed.set(name, passes + 1);
      continue;
    }
    const text = `the canary ${canary.version} (${flaw}) is still there after the look that finds ${why}`;
    violations.push({ invariant: 'a bad canary ends', text, atMs: endedMs, about: [] });
  }
  return violations;
};

/** The scheduled function ends a canary for what is true of it. */
export const endedForReason: Invariant = (history) =>
  history.canaries.pointers.flatMap(({ by, ended, atMs }, i, pointers) => {
    const canary = pointers[i - 1]?.canary;
    if (!by.startsWith('trials') || !canary || !ended) return [];
    const { flaw } = history.canaries.versions.get(canary.version) ?? {};
    const begunMs =
      pointers.findLast((one) => one.canary?.since !== canary.since && one.atMs < atMs)?.atMs ?? 0;
    if (isTrue(ended.reason, flaw, history, [begunMs, atMs])) return [];
    const text = `the canary ${canary.version} (${flaw ?? 'good'}) was rolled back: ${ended.reason}`;
    return [{ invariant: 'a canary ends for a reason', text, atMs, about: [] }];
  });

function isTrue(
  reason: string,
  flaw: Flaw | undefined,
  history: History,
  [fromMs, toMs]: readonly [number, number],
): boolean {
  const ended = history.kills.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs);
  const looksEnded = ended.filter(({ process }) => process.startsWith('trials')).length;
  if (reason.includes('the function that tries it ended')) return looksEnded >= MOST_ATTEMPTS;
  if (reason.includes('environments ended while they opened it'))
    return ended.length - looksEnded >= MOST_LOST;
  if (reason.includes('fails more often')) return flaw === 'fails';
  // Also where S3 does not give them its files.
  return flaw === 'broken' || flaw === 'refused' || isTroubled(history, fromMs, toMs);
}

/** Answers of each version that are enough. */
const ENOUGH = 200;
const MOST_LOST = 3;

/** The least that a look finds, by the counts in Redis before it and after it. */
function badness({ counts }: LookFact, flaw: string | undefined, before: number): string | undefined {
  if (flaw === 'broken' || flaw === 'ends') return 'that it does not open';
  const sums = counts.map(trialSums);
  const isRefused = sums.every(
    ({ openings: { refused, opened } }) => refused >= MOST_LOST && refused > opened,
  );
  if (isRefused) return 'that environments cannot open it';
  const areEnded = sums.every(({ openings: { began, opened, refused } }) => {
    const lost = began - opened - refused;
    return Math.min(lost, before) >= MOST_LOST && lost > opened;
  });
  if (areEnded) return 'that environments end while they open it';
  const areFailures = sums.every(({ canary, serving }) => {
    const failed = total(canary.failures);
    const failedBefore = total(serving.failures);
    return (
      Math.min(failed, serving.answers) >= ENOUGH &&
      canary.answers === 0 &&
      failedBefore * 4 < serving.answers
    );
  });
  return flaw === 'fails' && areFailures ? 'that all its records fail' : undefined;
}

/** Before and after a look: it saw one of the two, or a number between them. */
function leastUnended({ counts }: LookFact): number {
  const lost = counts
    .map(trialSums)
    .map(({ openings: { began, opened, refused } }) => began - opened - refused);
  return Math.min(...lost);
}

function total(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((all, count) => all + count, 0);
}
