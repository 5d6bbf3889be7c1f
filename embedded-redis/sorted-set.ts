/**
 * Keeps members ordered by score, then by their bytes. An insert moves the rest of an array, which is cheap up to the
 * hundreds of thousands of members of a local stack.
 */
import type { Bytes } from './replies.ts';

export type ScoredMember = readonly [member: Bytes, score: number];

/** A bound of a range of scores. */
export interface ScoreBound {
  readonly score: number;
  readonly exclusive: boolean;
}

function isBefore(a: ScoredMember, b: ScoredMember): boolean {
  return a[1] !== b[1] ? a[1] < b[1] : a[0] < b[0];
}

export class SortedSet {
  readonly #scores = new Map<Bytes, number>();
  readonly #ordered: ScoredMember[] = [];

  get size(): number {
    return this.#ordered.length;
  }

  score(member: Bytes): number | undefined {
    return this.#scores.get(member);
  }

  set(member: Bytes, score: number): void {
    this.delete(member);
    const scored: ScoredMember = [member, score];
    this.#scores.set(member, score);
    this.#ordered.splice(
      this.#firstNot((one) => isBefore(one, scored)),
      0,
      scored,
    );
  }

  delete(member: Bytes): boolean {
    const rank = this.rank(member);
    if (rank === undefined) return false;
    this.#scores.delete(member);
    this.#ordered.splice(rank, 1);
    return true;
  }

  rank(member: Bytes): number | undefined {
    const score = this.#scores.get(member);
    return score === undefined ? undefined : this.#firstNot((one) => isBefore(one, [member, score]));
  }

  /** The members by rank, `end` excluded. */
  slice(start: number, end: number): ScoredMember[] {
    return this.#ordered.slice(start, end);
  }

  /** The ranks that a range of scores covers. `end` is excluded and may be less than `start`. */
  ranks(min: ScoreBound, max: ScoreBound): { start: number; end: number } {
    const start = this.#firstNot(([, score]) => (min.exclusive ? score <= min.score : score < min.score));
    const end = this.#firstNot(([, score]) => (max.exclusive ? score < max.score : score <= max.score));
    return { start, end };
  }

  /** The index after the members for which `before` holds, which come first. */
  #firstNot(before: (one: ScoredMember) => boolean): number {
    let low = 0;
    let high = this.#ordered.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const one = this.#ordered[middle];
      if (one !== undefined && before(one)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
