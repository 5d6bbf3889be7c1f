/**
 * Counts the inferences of the Open Inference Protocol in the form of Triton's statistics extension, by version of the model.
 * What other environments of the function ran is not here.
 */
import type { Fact, InferencePhase, Observer } from '../pipeline/observer.ts';

const COMPUTE = ['compute_input', 'compute_infer', 'compute_output'] as const;
const PHASES: readonly InferencePhase[] = ['queue', ...COMPUTE];
type Compute = (typeof COMPUTE)[number];

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
  readonly inference_stats: Durations<'success' | 'fail' | InferencePhase | 'cache_hit' | 'cache_miss'>;
  readonly batch_stats: readonly (Durations<Compute> & { readonly batch_size: number })[];
}

/** Sizes of batches that are listed: callers choose them. Those of later ones are in the sums only. */
const MOST_SIZES = 128;
/** A request may still run on the version before the one that serves. */
const MOST_VERSIONS = 2;

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

interface Counts {
  lastMs: number;
  rows: number;
  readonly stats: Record<'success' | 'fail' | InferencePhase, Sum>;
  readonly sizes: Map<number, Record<Compute, Sum>>;
}

export class Inferences implements Observer {
  readonly #now: () => number;
  readonly #versions = new Map<string, Counts>();

  /** @param now wall clock in ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  inferenceEnded({ version, rows, ns, hasFailed }: Fact<'inferenceEnded'>): void {
    const counts = this.#of(version);
    const { stats, sizes } = counts;
    const total = PHASES.reduce((sum, phase) => sum + ns[phase], 0);
    if (hasFailed) return stats.fail.add(total);
    counts.lastMs = this.#now();
    counts.rows += rows;
    stats.success.add(total);
    if (sizes.size < MOST_SIZES && !sizes.has(rows)) sizes.set(rows, sums(COMPUTE));
    const size = sizes.get(rows);
    for (const phase of PHASES) stats[phase].add(ns[phase]);
    for (const phase of COMPUTE) size?.[phase].add(ns[phase]);
  }

  /** The statistics of a version of the model, which is called `name`. */
  of(version: string, name: string): ModelStatistics {
    const { lastMs, rows, stats, sizes } = this.#of(version);
    const { success, fail, ...phases } = stats;
    return {
      name,
      version,
      last_inference: lastMs,
      inference_count: rows,
      execution_count: success.count,
      // Nothing is answered from a cache.
      inference_stats: { success, fail, ...phases, cache_hit: new Sum(), cache_miss: new Sum() },
      batch_stats: [...sizes].map(([size, compute]) => ({ batch_size: size, ...compute })),
    };
  }

  #of(version: string): Counts {
    const versions = this.#versions;
    const stats = () => sums(['success', 'fail', ...PHASES]);
    const counts = versions.get(version) ?? { lastMs: 0, rows: 0, stats: stats(), sizes: new Map() };
    versions.set(version, counts);
    for (const old of versions.keys()) if (versions.size > MOST_VERSIONS) versions.delete(old);
    return counts;
  }
}
