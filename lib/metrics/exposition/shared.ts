/** The figures that every environment of a job delivers to Redis, as histograms, and what serves. */
import type { ServedVersions } from '../../contract/values.ts';
import { type Histogram, type Measurement, TIMERS, type TimerName, upToOctave } from '../timers.ts';
import type { Distribution, Family } from './families.ts';

/** The contract's timers under the names that Prometheus' conventions ask for. */
const NAMES: Readonly<Record<TimerName, readonly [name: string, help: string]>> = {
  'zoo.serving.redis.get': [
    'result_read',
    'Reading a result from Redis, with the time that a client waited for it.',
  ],
  'zoo.serving.redis.put': ['result_write', 'Writing the results of a batch to Redis.'],
  'zoo.serving.redis.wait': ['queue_wait', 'How long a record waited in the queue before it was delivered.'],
  'zoo.serving.request.metrics': ['metrics_read', 'Reading these figures from Redis.'],
  'zoo.serving.request.overall': [
    'predict_request',
    'Requests for predictions that were answered, as a whole.',
  ],
  'zoo.serving.request.predict': [
    'inference',
    'Decoding and running the records of a request or of a batch.',
  ],
};

/** Powers of two of a microsecond: 0.5 ms to 4.5 min. */
const OCTAVES = Array.from({ length: 20 }, (_, i) => i + 9);

export function timerFamilies(histograms: ReadonlyMap<Measurement, Histogram>): Family[] {
  return TIMERS.flatMap((timer) => {
    const histogram = histograms.get(timer);
    const [name, help] = NAMES[timer];
    if (!histogram) return [];
    const values = [distribution(histogram)];
    return { name: `cluster_serving_${name}_seconds`, type: 'histogram', unit: 'seconds', help, values };
  });
}

function distribution(histogram: Histogram): Distribution {
  return {
    labels: {},
    count: histogram.count,
    sum: histogram.sum / 1000,
    buckets: OCTAVES.map((octave) => [2 ** octave / 1e6, upToOctave(histogram, octave)]),
  };
}

/** @param served undefined while none can serve */
export function infoFamilies(job: string, served: ServedVersions | undefined, release: string): Family[] {
  const serving = served ? [{ labels: { model: job, version: served.version }, value: 1 }] : [];
  const { canary } = served ?? {};
  const share = canary ? [{ labels: { model: job, version: canary.version }, value: canary.share }] : [];
  const build = [{ labels: { version: release }, value: 1 }];
  return [
    {
      name: 'cluster_serving_model',
      type: 'info',
      help: 'The version of the model that serves.',
      values: serving,
    },
    {
      name: 'cluster_serving_canary_share',
      type: 'gauge',
      help: 'The part of the records that another version takes, while a canary runs.',
      values: share,
    },
    { name: 'cluster_serving_build', type: 'info', help: 'The release of the service.', values: build },
  ];
}
