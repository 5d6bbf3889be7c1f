/** Adds up what a replay finds of one output: how far its values are apart, and how often each class is the first one. */
import type { Compared } from './compare.ts';

export interface ReplayedOutput {
  readonly output: string;
  readonly records: number;
  /** Records with another shape, dtype or text, or a number where there was none. */
  readonly otherForm: number;
  /** As shares of the spread. */
  readonly median: number;
  readonly largest: number;
  /** Records by their distance, from the same on. */
  readonly distribution: readonly DistanceCount[];
  /** Undefined for an output of single floats. */
  readonly flips: number | undefined;
  /** The most frequent first; undefined for an output of single floats. */
  readonly classes: readonly ClassCounts[] | undefined;
}

interface DistanceCount {
  /** A share of the spread; undefined: more than all others. */
  readonly upTo: number | undefined;
  readonly records: number;
}

interface ClassCounts {
  /** The place of the class from 0, or a label. */
  readonly name: string;
  /** Records of which it was the first class, those of which it is now, and those of the former that have another now. */
  readonly before: number;
  readonly after: number;
  readonly flips: number;
}

/** Distances that the median is of. */
const MOST_DISTANCES = 1_000_000;
const MOST_CLASSES = 1_000;
const SHOWN_CLASSES = 20;
const BOUNDS = [0, 1e-6, 1e-4, 1e-2, 0.1, 1];

export class OutputSums {
  readonly #output: string;
  readonly #distances: number[] = [];
  readonly #classes = new Map<string, { before: number; after: number; flips: number }>();
  readonly #distribution = [...BOUNDS, undefined].map((upTo) => ({ upTo, records: 0 }));
  #records = 0;
  #otherForm = 0;
  #largest = 0;
  #flips: number | undefined;

  constructor(output: string) {
    this.#output = output;
  }

  add({ distance, flips, classes }: Compared): void {
    this.#records++;
    if (flips !== undefined) this.#flips = (this.#flips ?? 0) + Number(flips);
    if (classes) this.#addClasses(classes);
    if (distance === undefined) {
      this.#otherForm++;
      return;
    }
    if (this.#distances.length < MOST_DISTANCES) this.#distances.push(distance);
    this.#largest = Math.max(this.#largest, distance);
    const bin = this.#distribution.find(({ upTo = Infinity }) => distance <= upTo);
    if (bin) bin.records++;
  }

  sum(): ReplayedOutput {
    const sorted = Float64Array.from(this.#distances).sort();
    const classes = Array.from(this.#classes, ([name, counts]) => ({ name, ...counts }));
    return {
      output: this.#output,
      records: this.#records,
      otherForm: this.#otherForm,
      median: sorted[Math.floor(sorted.length / 2)] ?? 0,
      largest: this.#largest,
      distribution: this.#distribution,
      flips: this.#flips,
      classes:
        classes.length === 0
          ? undefined
          : classes.sort((a, b) => b.before - a.before || b.after - a.after).slice(0, SHOWN_CLASSES),
    };
  }

  #addClasses([was, is]: readonly [string, string]): void {
    const counts = this.#countsOf(was);
    if (counts) counts.before++;
    if (counts && was !== is) counts.flips++;
    const now = this.#countsOf(is);
    if (now) now.after++;
  }

  /** @returns undefined for one more than are counted */
  #countsOf(name: string) {
    const counts = this.#classes.get(name) ?? { before: 0, after: 0, flips: 0 };
    if (!this.#classes.has(name) && this.#classes.size >= MOST_CLASSES) return undefined;
    this.#classes.set(name, counts);
    return counts;
  }
}
