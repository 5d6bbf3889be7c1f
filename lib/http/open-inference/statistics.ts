/**
 * What this process has counted of the inferences of a model that is open, in the form of Triton's statistics extension. A
 * model that is opened again counts from zero, as in Triton, and what other environments of the function ran is not here.
 */
import type { Runner } from '../../contract/values.ts';

/** What a request waits for (the limit, the model), decodes, runs and writes; together they are its time. */
const PHASES = ['queue', 'compute_input', 'compute_infer', 'compute_output'] as const;
export type Phase = (typeof PHASES)[number];

/** `ns` of all that were counted together. */
interface Duration {
  readonly count: number;
  readonly ns: number;
}

type Durations<Name extends string> = Readonly<Record<Name, Duration>>;

export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  /** Wall clock in ms; 0 for none yet. */
  readonly last_inference: number;
  /** Rows that ran. */
  readonly inference_count: number;
  /** Requests that ran, each as a whole. */
  readonly execution_count: number;
  readonly inference_stats: Durations<'success' | 'fail' | Phase | 'cache_hit' | 'cache_miss'>;
  readonly batch_stats: readonly (Durations<Exclude<Phase, 'queue'>> & { readonly batch_size: number })[];
}

/** Times the phases of one request. `now` is monotonic, in ms. */
export class Watch {
  readonly ns: Record<Phase, number> = { queue: 0, compute_input: 0, compute_infer: 0, compute_output: 0 };
  readonly #now: () => number;
  #since: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** What passed since the last call, or since the beginning, was `phase`. */
  end(phase: Phase): void {
    const now = this.#now();
    this.ns[phase] += Math.round((now - this.#since) * 1e6);
    this.#since = now;
  }
}

/** Sizes of batches that are listed: callers choose them. Those of later ones are in the sums only. */
const MOST_SIZES = 128;

class Sum implements Duration {
  count = 0;
  ns = 0;

  add(ns: number): void {
    this.count++;
    this.ns += ns;
  }
}

const sums = <Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, new Sum()])) as Record<Name, Sum>;

class Counts {
  #lastMs = 0;
  #rows = 0;
  readonly #stats = sums(['success', 'fail', ...PHASES]);
  readonly #sizes = new Map<number, Record<Phase, Sum>>();

  succeeded({ ns }: Watch, rows: number, atMs: number): void {
    this.#lastMs = atMs;
    this.#rows += rows;
    this.#stats.success.add(total(ns));
    if (this.#sizes.size < MOST_SIZES && !this.#sizes.has(rows)) this.#sizes.set(rows, sums(PHASES));
    const size = this.#sizes.get(rows);
    for (const phase of PHASES) {
      this.#stats[phase].add(ns[phase]);
      size?.[phase].add(ns[phase]);
    }
  }

  failed({ ns }: Watch): void {
    this.#stats.fail.add(total(ns));
  }

  of(name: string, version: string): ModelStatistics {
    const { success, fail, ...phases } = this.#stats;
    return {
      name,
      version,
      last_inference: this.#lastMs,
      inference_count: this.#rows,
      execution_count: success.count,
      // Nothing is answered from a cache.
      inference_stats: { success, fail, ...phases, cache_hit: new Sum(), cache_miss: new Sum() },
      batch_stats: [...this.#sizes].map(([size, { queue: _, ...compute }]) => ({
        batch_size: size,
        ...compute,
      })),
    };
  }
}

function total(ns: Readonly<Record<Phase, number>>): number {
  return PHASES.reduce((sum, phase) => sum + ns[phase], 0);
}

const COUNTS = new WeakMap<Runner, Counts>();

export function countsOf(runner: Runner): Counts {
  let counts = COUNTS.get(runner);
  if (!counts) COUNTS.set(runner, (counts = new Counts()));
  return counts;
}

/** The statistics of the open model, which is called `job`. */
export function modelStatistics(runner: Runner, job: string): ModelStatistics {
  return countsOf(runner).of(job, runner.version);
}
