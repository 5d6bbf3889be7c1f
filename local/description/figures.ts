/**
 * What one service on this machine counts of itself: requests at its gateway, records by outcome, batches of its processes. All
 * requests and events of a job pass through this process, whatever its workers run in, so that nothing has to be gathered.
 */

import type { Outcome } from '../../lib/contract/values.ts';
import { Counter, type Family, Histogram, type Labels } from '../../lib/metrics/exposition/families.ts';
import type { Sink } from '../../lib/pipeline/serve.ts';
import type { QueueFigures } from '../aws/aws.ts';
import type { LoadSource, Totals } from '../console/history.ts';
import type { Observe } from '../gateway/requests.ts';

/** Seconds. A request ends after 30. */
const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const BATCH_RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const SUCCEEDED = 'succeeded';
/** A request whose client left before the answer, as nginx counts it. */
const LEFT = '499';
const BATCH_SECONDS = [0.0005, ...REQUEST_SECONDS];

/** What is asked when the figures are. */
export interface LiveFigures {
  readonly load: LoadSource;
  readonly queue: () => QueueFigures;
}

/** Where a record came from. */
export type Source = 'request' | 'queue';

export class ServiceFigures {
  readonly requests = new Counter();
  readonly requestSeconds = new Histogram(REQUEST_SECONDS);
  readonly records = new Counter();
  readonly batchRecords = new Histogram(BATCH_RECORDS);
  readonly batchSeconds = new Histogram(BATCH_SECONDS);
  readonly #before: () => void;
  #inFlight = 0;
  /** Those that asked for predictions. */
  #asked = 0;

  /** @param before called each time that something is counted */
  constructor(before: () => void) {
    this.#before = before;
  }

  /** For the gateway. */
  readonly observe: Observe = (request) => {
    this.#inFlight++;
    return (status, ms) => {
      this.#before();
      this.#inFlight--;
      const { method, path: route, functionName } = request.route ?? { method: 'none', path: 'none' };
      if (method === 'POST' && functionName === 'predict') this.#asked++;
      this.requests.add({ method, route, status: status === undefined ? LEFT : String(status) });
      this.requestSeconds.observe({ method, route }, ms / 1000);
    };
  };

  /** A run in a process of the model or the worker. */
  batch(records: number, tookMs: number): void {
    this.batchRecords.observe({}, records);
    this.batchSeconds.observe({}, tookMs / 1000);
  }

  /** The sink of a function of the queue, whose records are counted once their results are stored. */
  countedSink(sink: Sink): Sink {
    return {
      save: async (finished, model) => {
        const unsaved = await sink.save(finished, model);
        for (const { id, outcome } of finished) if (!unsaved.includes(id)) this.record('queue', outcome);
        return unsaved;
      },
    };
  }

  /** A record has its outcome. */
  record(source: Source, outcome: Outcome): void {
    this.#before();
    this.records.add({ source, outcome: outcome.ok ? SUCCEEDED : outcome.error.code });
  }

  /** Of everything since the start, as the console shows it. */
  totals(): Omit<Totals, 'arrived'> {
    const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
    const outcomes = this.records.values;
    // A request is cancelled by its client, and fails nothing.
    const isGood = ({ source, outcome }: Labels) =>
      outcome === SUCCEEDED || (source === 'request' && outcome === 'cancelled');
    const failures = outcomes.filter(({ labels }) => !isGood(labels));
    return {
      requests: this.#asked,
      finished: sum(outcomes.map(({ value }) => value)),
      failed: sum(failures.map(({ value }) => value)),
      batches: sum(this.batchRecords.values.map(({ count }) => count)),
      batched: sum(this.batchRecords.values.map((one) => one.sum)),
      batchMs: sum(this.batchSeconds.values.map((one) => one.sum)) * 1000,
    };
  }

  families({ load, queue }: LiveFigures): Family[] {
    return [
      {
        name: 'cluster_serving_requests',
        type: 'counter',
        help: 'Requests by route and status, the refused ones included, those of gRPC with the status of HTTP; route "none": no such route; status 499: the client left before the answer.',
        values: this.requests.values,
      },
      {
        name: 'cluster_serving_request_duration_seconds',
        type: 'histogram',
        unit: 'seconds',
        help: 'From the head of a request to the end of its answer.',
        values: this.requestSeconds.values,
      },
      gauge('requests_in_flight', 'Requests that have no answer yet.', this.#inFlight),
      {
        name: 'cluster_serving_records',
        type: 'counter',
        help: 'Records by where they came from and their outcome: "succeeded", or the code of the error; "cancelled" of a request: its client left before they ran.',
        values: this.records.values,
      },
      {
        name: 'cluster_serving_batch_records',
        type: 'histogram',
        help: 'Records that ran together in a process of the model or the worker.',
        values: this.batchRecords.values,
      },
      {
        name: 'cluster_serving_batch_duration_seconds',
        type: 'histogram',
        unit: 'seconds',
        help: 'Runs in a process of the model or the worker.',
        values: this.batchSeconds.values,
      },
      ...loadFamilies(load),
      ...queueFamilies(queue()),
      ...processFamilies(),
    ];
  }
}

function loadFamilies({ workers, waiting, busyMs }: LoadSource): Family[] {
  return [
    gauge('workers', 'Processes that run the model or the worker.', workers?.() ?? 1),
    gauge('records_waiting', 'Records that wait for a process.', waiting?.() ?? 0),
    {
      name: 'cluster_serving_worker_busy_seconds',
      type: 'counter',
      unit: 'seconds',
      help: 'The time that all processes together have run records.',
      values: [{ labels: {}, value: (busyMs?.() ?? 0) / 1000 }],
    },
  ];
}

function queueFamilies({ oldestMs, ...states }: QueueFigures): Family[] {
  return [
    {
      name: 'cluster_serving_queue_messages',
      type: 'gauge',
      help: 'Messages of the queue: waiting, delivered and not acknowledged yet, or delayed.',
      values: Object.entries(states).map(([state, value]) => ({ labels: { state }, value })),
    },
    {
      ...gauge(
        'queue_age_seconds',
        'How long the first message that waits has been there; 0 when none waits.',
        oldestMs === undefined ? 0 : Math.max(0, Date.now() - oldestMs) / 1000,
      ),
      unit: 'seconds',
    },
  ];
}

/** Under the names that every client of Prometheus uses. */
function processFamilies(): Family[] {
  const { user, system } = process.cpuUsage();
  return [
    {
      name: 'process_cpu_seconds',
      type: 'counter',
      unit: 'seconds',
      help: 'CPU time of the process of the gateway.',
      values: [{ labels: {}, value: (user + system) / 1e6 }],
    },
    {
      name: 'process_resident_memory_bytes',
      type: 'gauge',
      unit: 'bytes',
      help: 'Memory of the process of the gateway.',
      values: [{ labels: {}, value: process.memoryUsage.rss() }],
    },
    {
      name: 'process_start_time_seconds',
      type: 'gauge',
      unit: 'seconds',
      help: 'When the process of the gateway started, in seconds since 1970.',
      values: [{ labels: {}, value: performance.timeOrigin / 1000 }],
    },
  ];
}

function gauge(name: string, help: string, value: number): Family {
  return { name: `cluster_serving_${name}`, type: 'gauge', help, values: [{ labels: {}, value }] };
}
