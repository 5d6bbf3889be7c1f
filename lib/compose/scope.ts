/**
 * The dependencies of one environment, each opened once, at its first use. A part is a function of the scope and may
 * use other parts. A Lambda process has one scope; the single machine has one per job.
 */
import type { Environment } from '../config/environment.ts';
import type { ShownBudget } from '../metrics/budget.ts';
import type { Budget } from '../observe/budget.ts';
import type { Payloads } from '../pipeline/chunks.ts';
import type { InvocationClock } from '../pipeline/deadline.ts';
import type { Observer } from '../pipeline/observer.ts';
import type { LargeStore } from '../results/large.ts';
import type { openOnnx } from './onnx.ts';
import type { Tracing } from './traced.ts';

type Part<T> = (scope: Scope) => T;

/** Overrides supplied by the single machine. */
interface Own {
  /** Opens a version of the model, whose runs it tells. Default: in this process. */
  readonly openRunner?: (
    told: Observer,
    ...version: Parameters<typeof openOnnx>
  ) => ReturnType<typeof openOnnx>;
  /** The same for further models, which share processes. */
  readonly openNamed?: Own['openRunner'];
  /** At least the place in the order of every enqueue so far. Undefined: only SQS knows. */
  readonly latestOrder?: () => number;
  /** Told before those that every environment has, in this order. */
  readonly observers?: readonly Observer[];
  /** Counts costs (budget.ts). Undefined: the job has no budget. */
  readonly budget?: BudgetParts | undefined;
  /** Undefined: nothing is traced. */
  readonly tracing?: Tracing | undefined;
}

interface BudgetParts {
  readonly budget: Part<Budget>;
  readonly spending: Part<Observer>;
  /** The sums so far. @throws results_unavailable */
  readonly shown: (scope: Scope) => Promise<ShownBudget>;
  readonly tellThrottle: (scope: Scope) => void;
  readonly countedStores: (
    scope: Scope,
    large: LargeStore,
    payloads: Payloads,
  ) => { readonly large: LargeStore; readonly payloads: Payloads };
}

const FAILURE_MS = 1_500;

export class Scope {
  readonly environment: Environment;
  readonly own: Own;
  /** The clock of the running invocation, or of INIT. On Lambda one runs at a time. */
  clock: InvocationClock | undefined;
  readonly #opened = new Map<Part<unknown>, unknown>();

  constructor(environment: Environment, own: Own = {}) {
    this.environment = environment;
    this.own = own;
  }

  /** The time that what is running has left, in ms. */
  leftMs(): number {
    return this.clock?.getRemainingTimeInMillis() ?? Number.POSITIVE_INFINITY;
  }

  /** The time that a call of what is running may take: the rest is for its failure to be answered. */
  limitMs(): number | undefined {
    return this.clock && Math.max(0, Math.floor(this.leftMs() - FAILURE_MS));
  }

  get<T>(part: Part<T>): T {
    // The value was created by this key, whose type determines it.
    if (this.#opened.has(part)) return this.#opened.get(part) as T;
    const opened = part(this);
    this.#opened.set(part, opened);
    // A failed opening is repeated at the next use.
    if (opened instanceof Promise) opened.catch(() => this.#opened.delete(part));
    return opened;
  }
}
