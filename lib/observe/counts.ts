/**
 * Counts what one service does: requests at its gateway, records by outcome, runs of its processes. All requests and events of a job
 * pass through the process of a single machine, so that nothing has to be gathered. Prometheus, /stat and the console read these.
 */
import type { Outcome } from '../contract/values.ts';
import { Counter, Histogram, type Labels } from '../metrics/exposition/families.ts';
import type { Fact, Observer, Source } from '../pipeline/observer.ts';

/** Seconds. A request ends after 30. */
const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const BATCH_RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const SUCCEEDED = 'succeeded';
/** A request whose client left before the answer, as nginx counts it. */
const LEFT = '499';
const BATCH_SECONDS = [0.0005, ...REQUEST_SECONDS];

export class ServiceCounts implements Observer {
  readonly requests = new Counter();
  readonly requestSeconds = new Histogram(REQUEST_SECONDS);
  readonly records = new Counter();
  /** Those of further models, by their names: each time they ran. */
  readonly modelRecords = new Counter();
  readonly modelSeconds = new Histogram(BATCH_SECONDS);
  readonly batchRecords = new Histogram(BATCH_RECORDS);
  readonly batchSeconds = new Histogram(BATCH_SECONDS);
  requestsInFlight = 0;
  /** Requests for statistics. */
  statisticRequests = 0;
  /** Records that went to the model. */
  arrived = 0;
  /** Those of them that ran, or failed. */
  ran = 0;
  failed = 0;
  mostInQueue = 0;
  /** Requests for predictions. */
  #predictions = 0;

  /** Records that have arrived and not run. */
  get inQueue(): number {
    return this.arrived - this.ran;
  }

  requestArrived(): void {
    this.requestsInFlight++;
  }

  requestAccepted({ functionName }: Fact<'requestAccepted'>): void {
    if (functionName === 'statistics') this.statisticRequests++;
  }

  requestAnswered({ method, route, functionName, status, tookMs }: Fact<'requestAnswered'>): void {
    this.requestsInFlight--;
    if (method === 'POST' && functionName === 'predict') this.#predictions++;
    this.requests.add({ method, route, status: status === undefined ? LEFT : String(status) });
    this.requestSeconds.observe({ method, route }, tookMs / 1000);
  }

  recordsArrived({ records }: Fact<'recordsArrived'>): void {
    this.arrived += records;
    this.mostInQueue = Math.max(this.mostInQueue, this.inQueue);
  }

  recordsRan({ source, outcomes, tookMs, further }: Fact<'recordsRan'>): void {
    if (further) this.#countModel(further.name, outcomes, tookMs);
    this.ran += outcomes.length;
    for (const outcome of outcomes) {
      // The client of a cancelled one left before it ran, so neither side is at fault.
      if (!outcome.ok && outcome.error.code !== 'cancelled') this.failed++;
      if (source === 'request') this.#count(source, outcome);
    }
  }

  recordsStored({ finished, unsaved }: Fact<'recordsStored'>): void {
    for (const { id, outcome } of finished) if (!unsaved.includes(id)) this.#count('queue', outcome);
  }

  runEnded({ records, tookMs }: Fact<'runEnded'>): void {
    this.batchRecords.observe({}, records);
    this.batchSeconds.observe({}, tookMs / 1000);
  }

  #countModel(model: string, outcomes: readonly Outcome[], tookMs: number): void {
    for (const outcome of outcomes)
      this.modelRecords.add({ model, outcome: outcome.ok ? SUCCEEDED : outcome.error.code });
    this.modelSeconds.observe({ model }, tookMs / 1000);
  }

  /** A record has its outcome. */
  #count(source: Source, outcome: Outcome): void {
    this.records.add({ source, outcome: outcome.ok ? SUCCEEDED : outcome.error.code });
  }

  /** Returns the sums since the start, as the console shows them. */
  totals() {
    const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
    const outcomes = this.records.values;
    // A request is cancelled by its client, and fails nothing.
    const isGood = ({ source, outcome }: Labels) =>
      outcome === SUCCEEDED || (source === 'request' && outcome === 'cancelled');
    const failures = outcomes.filter(({ labels }) => !isGood(labels));
    return {
      requests: this.#predictions,
      finished: sum(outcomes.map(({ value }) => value)),
      failed: sum(failures.map(({ value }) => value)),
      batches: sum(this.batchRecords.values.map(({ count }) => count)),
      batched: sum(this.batchRecords.values.map((one) => one.sum)),
      batchMs: sum(this.batchSeconds.values.map((one) => one.sum)) * 1000,
    };
  }
}
