/** The last samples of a service: sizes, times, what a worker's own code recorded, and who asked how often. */
import { elementAt } from '../contract/present.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';

const SAMPLES = 1_000;
/** Limit for the keys that a worker adds. */
const MOST_KEYS = 100;
const MOST_CLIENTS = 10_000;
const ACTIVE_MS = 180_000;

export class Samples implements Observer {
  readonly #now: () => number;
  readonly #samples = new Map<string, number[]>();
  /** When each client last asked. */
  readonly #clients = new Map<string, { requests: number; lastMs: number }>();

  /** @param now a clock in ms that never goes back */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Requests with items are counted, with the bytes of their bodies. */
  requestAccepted({ method, functionName, client, bytes }: Fact<'requestAccepted'>): void {
    if (method !== 'POST' || functionName !== 'predict') return;
    this.#sample('sys_input_byte', bytes);
    const known = this.#clients.get(client);
    // The client that has not asked for longest comes first.
    this.#clients.delete(client);
    this.#clients.set(client, { requests: (known?.requests ?? 0) + 1, lastMs: this.#now() });
    const [oldest] = this.#clients.keys();
    if (this.#clients.size > MOST_CLIENTS && oldest !== undefined) this.#clients.delete(oldest);
  }

  recordsRan({ outcomes: { length }, tookMs }: Fact<'recordsRan'>): void {
    for (let i = 0; i < Math.min(length, SAMPLES); i++) this.#sample('latency', tookMs);
  }

  runEnded({ records, tookMs, samples = {} }: Fact<'runEnded'>): void {
    this.#sample('sys_batchsize', records);
    this.#sample('sys_predict', tookMs);
    for (const [key, values] of Object.entries(samples)) {
      for (const value of values.slice(-SAMPLES)) this.#sample(key, value);
    }
  }

  /** By key. */
  summaries(): Readonly<Record<string, Summary | undefined>> {
    return Object.fromEntries([...this.#samples].map(([key, samples]) => [key, summary(samples)]));
  }

  clientCounts(): Readonly<Record<string, number>> {
    const now = this.#now();
    const clients = [...this.#clients.values()];
    const { avg = 0, min = 0, max = 0 } = summary(clients.map(({ requests }) => requests)) ?? {};
    return {
      num_total_client: clients.length,
      num_active_client: clients.filter(({ lastMs }) => now - lastMs < ACTIVE_MS).length,
      avg_request_per_client: avg,
      min_request_per_client: min,
      max_request_per_client: max,
    };
  }

  #sample(key: string, value: number): void {
    if (!Number.isFinite(value)) return;
    const samples = this.#samples.get(key) ?? [];
    if (samples.length === 0 && this.#samples.size >= MOST_KEYS) return;
    samples.push(value);
    if (samples.length > SAMPLES) samples.shift();
    this.#samples.set(key, samples);
  }
}

interface Summary {
  readonly avg: number;
  readonly min: number;
  readonly max: number;
  readonly std: number;
  readonly med: number;
}

/** @returns undefined without samples */
export function summary(samples: readonly number[]): Summary | undefined {
  if (samples.length === 0) return undefined;
  const sorted = samples.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  const at = (index: number) => elementAt(sorted, index, 'sorted');
  const avg = samples.reduce((sum, value) => sum + value, 0) / samples.length;
  return {
    avg,
    min: at(0),
    max: at(sorted.length - 1),
    std: Math.sqrt(samples.reduce((sum, value) => sum + (value - avg) ** 2, 0) / samples.length),
    med: sorted.length % 2 === 1 ? at(half) : (at(half - 1) + at(half)) / 2,
  };
}
