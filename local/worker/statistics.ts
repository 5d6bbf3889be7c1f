/**
 * Data of /stat and /status/server for a service since its start: its counts, the last samples of each key, and the
 * last hour in steps of ten seconds. It opens the observers that it reads.
 */
import { type LiveFacts, STEP_MS, STEPS, type Step } from '../../console/api.ts';
import { ServiceCounts } from '../../lib/observe/counts.ts';
import { History, type LoadSource } from '../../lib/observe/history.ts';
import { Samples, summary } from '../../lib/observe/samples.ts';
import type { Observer } from '../../lib/pipeline/observer.ts';

export type Facts = Readonly<Record<string, unknown>>;

export class ServiceStatistics {
  readonly now: () => number;
  readonly startedMs: number;
  readonly startedAt = new Date();
  /** The last hour. */
  readonly past: History;
  readonly counts = new ServiceCounts();
  readonly #samples: Samples;
  #load: LoadSource = {};

  /** @param now a clock in ms that never goes back */
  constructor(now: () => number) {
    this.now = now;
    this.startedMs = now();
    this.#samples = new Samples(now);
    const totals = () => ({ ...this.counts.totals(), arrived: this.counts.arrived });
    this.past = new History({ now, stepMs: STEP_MS, steps: STEPS, load: () => this.#load, totals });
  }

  /** The history first: it ends a step before something is counted in the next one. */
  get observers(): readonly Observer[] {
    return [this.past, this.counts, this.#samples];
  }

  /** From now on asks these workers. */
  follow(load: LoadSource): void {
    this.#load = load;
  }

  /** Items that workers have now. */
  get serving(): number {
    return Math.max(0, this.counts.inQueue - (this.#load.waiting?.() ?? 0));
  }

  /** Processes that can work at once. */
  get workers(): number {
    return this.#load.workers?.() ?? 1;
  }

  /** The steps of the last hour, the oldest first. */
  history(): readonly Step[] {
    return this.past.steps();
  }

  /** The console's view of a service: its start, its last hour and its sums. */
  live(): LiveFacts {
    const steps = this.history();
    // One reading, or a pause between two would let a step end before the start.
    const originMs = Date.now() - this.now();
    return {
      since: new Date(originMs + this.startedMs).toISOString(),
      endedAt: originMs + this.past.stepEndedMs,
      steps,
      total: this.counts.totals(),
    };
  }

  /** The keys of /status/server that change. */
  status(): { readonly statistic: Facts; readonly statistic_postsink: Facts } {
    const { arrived, ran, failed, inQueue, mostInQueue, statisticRequests } = this.counts;
    const steps = this.history();
    const others = this.#samples.summaries();
    const { sys_predict: predict } = others;
    return {
      statistic: {
        ...ratesOf(
          arrived,
          steps.map((step) => step.arrived),
        ),
        num_sys_request: statisticRequests,
        num_total_request: arrived + statisticRequests,
        ...this.#samples.clientCounts(),
      },
      statistic_postsink: {
        ...ratesOf(
          ran,
          steps.map(({ finished }) => finished),
        ),
        total_job_in_queue: inQueue,
        maximum_job_in_queue: mostInQueue,
        total_processed_job: ran,
        num_exception: failed,
        util: steps.at(-1)?.util ?? 0,
        // As the original computes it: runs per second, if all workers always ran.
        ideal_maxload: predict && predict.avg > 0 ? (this.workers * 1_000) / predict.avg : 0,
        others,
      },
    };
  }
}

function ratesOf(total: number, perStep: readonly number[]): Facts {
  const rates = perStep.map((count) => (count * 1_000) / STEP_MS);
  const { avg = 0, min = 0, max = 0 } = summary(rates) ?? {};
  return {
    num_data_request: total,
    cur_request_per_second: rates.at(-1) ?? 0,
    avg_request_per_second: avg,
    min_request_per_second: min,
    max_request_per_second: max,
  };
}
