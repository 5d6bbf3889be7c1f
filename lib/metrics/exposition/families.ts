/**
 * Counters and histograms of one process, and the shape in which all figures are shown. The values of labels come from closed
 * sets (routes, statuses, error codes, models that exist), never from a caller, so that their number is bounded.
 */

export type Labels = Readonly<Record<string, string>>;

interface Value {
  readonly labels: Labels;
  readonly value: number;
}

export interface Distribution {
  readonly labels: Labels;
  readonly count: number;
  readonly sum: number;
  /** How many values are at most the bound, for growing bounds. */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
}

interface Described {
  /** In snake_case, with its unit at the end and without `_total`. */
  readonly name: string;
  readonly help: string;
  readonly unit?: 'seconds' | 'bytes';
}

/** All values of one name. An info has the value 1, and says what it has to say in labels. */
export type Family = Described &
  (
    | { readonly type: 'counter' | 'gauge' | 'info'; readonly values: readonly Value[] }
    | { readonly type: 'histogram'; readonly values: readonly Distribution[] }
  );

/** A number that only grows, for each combination of labels that occurred. */
export class Counter {
  readonly #values = new Map<string, { readonly labels: Labels; value: number }>();

  /** @param labels always with the same names, in the same order */
  add(labels: Labels, by = 1): void {
    entryOf(this.#values, labels, () => ({ labels, value: 0 })).value += by;
  }

  get values(): readonly Value[] {
    return [...this.#values.values()];
  }
}

interface Buckets {
  readonly labels: Labels;
  readonly counts: number[];
  count: number;
  sum: number;
}

/** How values are distributed, for each combination of labels that occurred. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #values = new Map<string, Buckets>();

  /** @param bounds growing; larger values count in the total alone */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  /** @param labels always with the same names, in the same order */
  observe(labels: Labels, value: number): void {
    const made = () => ({ labels, counts: this.#bounds.map(() => 0), count: 0, sum: 0 });
    const into = entryOf(this.#values, labels, made);
    into.count++;
    into.sum += value;
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    if (bucket !== -1) into.counts[bucket] = (into.counts[bucket] ?? 0) + 1;
  }

  get values(): readonly Distribution[] {
    return Array.from(this.#values.values(), ({ labels, counts, count, sum }) => {
      let upTo = 0;
      return {
        labels,
        count,
        sum,
        buckets: this.#bounds.map((bound, i) => [bound, (upTo += counts[i] ?? 0)]),
      };
    });
  }
}

function entryOf<T>(entries: Map<string, T>, labels: Labels, made: () => T): T {
  const key = Object.values(labels).join('\n');
  const known = entries.get(key);
  if (known !== undefined) return known;
  const entry = made();
  entries.set(key, entry);
  return entry;
}
