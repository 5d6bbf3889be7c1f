/** The figures of one service on this machine for Prometheus: its counts, the load of its processes, its queue. */

import type { Family } from '../../lib/metrics/exposition/families.ts';
import type { ServiceCounts } from '../../lib/observe/counts.ts';
import type { LoadSource } from '../../lib/observe/history.ts';
import type { QueueFigures } from '../aws/aws.ts';

/** Read whenever the figures are requested. */
export interface LiveFigures {
  readonly load: LoadSource;
  readonly queue: () => QueueFigures;
}

export function serviceFamilies(counts: ServiceCounts, { load, queue }: LiveFigures): Family[] {
  return [
    {
      name: 'cluster_serving_requests',
      type: 'counter',
      help: 'Requests by route and status, the refused ones included, those of gRPC with the status of HTTP; route "none": no such route; status 499: the client left before the answer.',
      values: counts.requests.values,
    },
    {
      name: 'cluster_serving_request_duration_seconds',
      type: 'histogram',
      unit: 'seconds',
      help: 'From the head of a request to the end of its answer.',
      values: counts.requestSeconds.values,
    },
    gauge('requests_in_flight', 'Requests that have no answer yet.', counts.requestsInFlight),
    {
      name: 'cluster_serving_records',
      type: 'counter',
      help: 'Records by where they came from and their outcome: "succeeded", or the code of the error; "cancelled" of a request: its client left before they ran.',
      values: counts.records.values,
    },
    {
      name: 'cluster_serving_batch_records',
      type: 'histogram',
      help: 'Records that ran together in a process of the model or the worker.',
      values: counts.batchRecords.values,
    },
    {
      name: 'cluster_serving_batch_duration_seconds',
      type: 'histogram',
      unit: 'seconds',
      help: 'Runs in a process of the model or the worker.',
      values: counts.batchSeconds.values,
    },
    ...modelFamilies(counts),
    ...loadFamilies(load),
    ...queueFamilies(queue()),
    ...processFamilies(),
  ];
}

/** None for a job without further models. */
function modelFamilies({ modelRecords, modelSeconds }: ServiceCounts): Family[] {
  if (modelRecords.values.length === 0) return [];
  return [
    {
      name: 'cluster_serving_model_records',
      type: 'counter',
      help: 'Records that a further model ran, by its name and their outcome; one that is delivered again counts each time.',
      values: modelRecords.values,
    },
    {
      name: 'cluster_serving_model_duration_seconds',
      type: 'histogram',
      unit: 'seconds',
      help: 'How long records of a further model, or of a request to it, waited for it and ran.',
      values: modelSeconds.values,
    },
  ];
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
