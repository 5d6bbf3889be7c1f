/**
 * What this process has counted of the inferences of a model's version, in the form of Triton's statistics extension. What
 * other environments of the function ran is not here.
 */
import type { Model } from '../../contract/values.ts';

const COMPUTE = ['compute_input', 'compute_infer', 'compute_output'] as const;
/** What a request waits for (the limit, the model), reads, runs and writes; together they are its time. */
const PHASES = ['queue', ...COMPUTE] as const;
type Phase = (typeof PHASES)[number];
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
  readonly inference_stats: Durations<'success' | 'fail' | Phase | 'cache_hit' | 'cache_miss'>;
  readonly batch_stats: readonly (Durations<Compute> & { readonly batch_size: number })[];
}

/** Of one request, in ns. */
type Took = Readonly<Record<Phase, number>>;

/** Times the phases of one request, and counts it for the model that it reaches. `now` is monotonic, in ms. */
export class Watch {
  readonly #ns: Record<Phase, number> = { queue: 0, compute_input: 0, compute_infer: 0, compute_output: 0 };
  readonly #now: () => number;
  readonly #begin: number;
  #since: number;
  #counts: Counts | undefined;
  #rows = 0;

  constructor(now: () => number) {
    this.#now = now;
    this.#begin = this.#since = now();
  }

  /** What passed since the last call, or since the beginning, was `phase`. */
  end(phase: Phase): void {
    const now = this.#now();
    this.#ns[phase] += Math.round((now - this.#since) * 1e6);
    this.#since = now;
  }

  /** What has passed since the beginning, in ms. */
  get ms(): number {
    return this.#now() - this.#begin;
  }

  /** Names what the request runs on. One that ends before is nobody's failure. */
  reaches(model: Model, version: string, rows: number): void {
    this.#counts = countsOf(model, version);
    this.#rows = rows;
  }

  /** @param atMs wall clock */
  succeeded(atMs: number): void {
    this.#counts?.succeeded(this.#ns, this.#rows, atMs);
  }

  failed(): void {
    this.end('compute_infer');
    this.#counts?.failed(this.#ns);
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
  readonly #sizes = new Map<number, Record<Compute, Sum>>();

  succeeded(ns: Took, rows: number, atMs: number): void {
    this.#lastMs = atMs;
    this.#rows += rows;
    this.#stats.success.add(total(ns));
    if (this.#sizes.size < MOST_SIZES && !this.#sizes.has(rows)) this.#sizes.set(rows, sums(COMPUTE));
    const size = this.#sizes.get(rows);
    for (const phase of PHASES) this.#stats[phase].add(ns[phase]);
    for (const phase of COMPUTE) size?.[phase].add(ns[phase]);
  }

  failed(ns: Took): void {
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
      batch_stats: [...this.#sizes].map(([size, compute]) => ({ batch_size: size, ...compute })),
    };
  }
}

function total(ns: Took): number {
  return PHASES.reduce((sum, phase) => sum + ns[phase], 0);
}

/** By version. A request may still run on the version before the one that serves. */
const COUNTS = new WeakMap<Model, Map<string, Counts>>();
const MOST_VERSIONS = 2;

function countsOf(model: Model, version: string): Counts {
  const versions = COUNTS.get(model) ?? new Map<string, Counts>();
  COUNTS.set(model, versions);
  const counts = versions.get(version) ?? new Counts();
  versions.set(version, counts);
  for (const old of versions.keys()) if (versions.size > MOST_VERSIONS) versions.delete(old);
  return counts;
}

/** The statistics of a model's version, which is called `job`. */
export function modelStatistics(model: Model, version: string, job: string): ModelStatistics {
  return countsOf(model, version).of(job, version);
}
