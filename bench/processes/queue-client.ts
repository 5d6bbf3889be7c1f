/**
 * In: a stack's addresses and inputs with their answers. Out: how long enqueue to result takes, one record at a time or
 * many at once, and how fast a full queue empties. Trap: the client is a process of its own, as a user's is: in the
 * stack's process it would share its thread.
 */
import { Redis } from 'ioredis';
import { indexKey } from '../../lib/contract/names.ts';
import { InputQueue } from '../../sdk/input-queue.ts';
import type { RecordInputs } from '../../sdk/inputs.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { rowOfUri } from '../models.ts';
import { assertSame } from '../raw.ts';
import { serveParent } from './child.ts';

export type QueueQuestion =
  | {
      readonly kind: 'open';
      readonly job: string;
      readonly queueUrl: string;
      readonly endpoint: string;
      readonly region: string;
      readonly redisUrl: string;
      /** Take turns; a record's is told by its uri. */
      readonly inputs: readonly RecordInputs[];
      readonly answers: readonly Float32Array[];
    }
  /** One record after the other: enqueue, wait for its result. */
  | { readonly kind: 'latency'; readonly records: number }
  /** All at once: enqueue them, wait for the last result. */
  | { readonly kind: 'burst'; readonly records: number }
  /** Waits until `records` results are there, then takes them all. */
  | { readonly kind: 'drained'; readonly records: number };

export interface QueueAnswer {
  /** Latency: of each record, ascending. Burst: of all, one number. Drained: none. */
  readonly ms: Float64Array;
  /** Drained: records a second of each fifth of the records between the first and the last result. */
  readonly windowRates: readonly number[];
  /** The same of all of them. */
  readonly rate: number;
}

type Opened = Extract<QueueQuestion, { kind: 'open' }> & {
  readonly inputQueue: InputQueue;
  readonly outputQueue: OutputQueue;
  readonly redis: Redis;
};

const DRAIN_LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 4;
const WINDOWS = 5;
const NO_RATES = { windowRates: [], rate: 0 };

function openQueues(question: Extract<QueueQuestion, { kind: 'open' }>): Opened {
  const { job, queueUrl, endpoint, region, redisUrl } = question;
  return {
    ...question,
    inputQueue: new InputQueue({ name: job, queueUrl, endpoint, region }),
    outputQueue: new OutputQueue({ name: job, url: redisUrl }),
    redis: new Redis(redisUrl),
  };
}

async function sendAndWait(opened: Opened, uri: string): Promise<() => void> {
  const { inputQueue, outputQueue, inputs, answers } = opened;
  const row = rowOfUri(uri, inputs.length);
  await inputQueue.enqueue(uri, inputs[row] as RecordInputs);
  const result = await outputQueue.wait(uri);
  return () => assertSame(result.outputs[0]?.data as Float32Array, answers[row] as Float32Array, uri);
}

async function measureLatency(opened: Opened, records: number, run: number): Promise<QueueAnswer> {
  const latencies: number[] = [];
  for (let record = 0; record < records; record++) {
    const begin = performance.now();
    const check = await sendAndWait(opened, `latency-${run}-${record}`);
    latencies.push(performance.now() - begin);
    check();
  }
  return { ms: Float64Array.from(latencies).sort(), ...NO_RATES };
}

async function measureBurst(opened: Opened, records: number, run: number): Promise<QueueAnswer> {
  const begin = performance.now();
  const uris = Array.from({ length: records }, (_, record) => `burst-${run}-${record}`);
  const checks = await Promise.all(uris.map((uri) => sendAndWait(opened, uri)));
  const ms = performance.now() - begin;
  for (const check of checks) check();
  return { ms: Float64Array.of(ms), ...NO_RATES };
}

/** Waits until all results are there; then tells when each came, and checks every one of them. */
async function measureDrain(opened: Opened, records: number): Promise<QueueAnswer> {
  const { redis, job, outputQueue, inputs, answers } = opened;
  const begin = performance.now();
  for (let count = 0; count < records; ) {
    if (performance.now() - begin > DRAIN_LIMIT_MS) throw new Error(`${count} of ${records} results came`);
    count = await redis.zcard(indexKey(job));
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  const rates = ratesOf(await arrivals(redis, job));
  let checked = 0;
  for await (const { uri, ...rest } of outputQueue.drain()) {
    if ('error' in rest) throw rest.error;
    const expected = answers[rowOfUri(uri, inputs.length)] as Float32Array;
    assertSame(rest.result.outputs[0]?.data as Float32Array, expected, uri);
    checked++;
  }
  if (checked !== records) throw new Error(`${checked} results instead of ${records}`);
  return { ms: new Float64Array(0), ...rates };
}

interface Arrivals {
  /** ms, ascending. */
  readonly times: readonly number[];
  /** How many results there were then. */
  readonly counts: readonly number[];
}

/**
 * The index is sorted by when a result expires, which is as long after it was saved for each: the stack may have begun
 * before this process could look.
 */
async function arrivals(redis: Redis, job: string): Promise<Arrivals> {
  const entries = await redis.zrange(indexKey(job), '0', '-1', 'WITHSCORES');
  const seen = new Map<number, number>();
  for (let i = 1; i < entries.length; i += 2) seen.set(Number(entries[i]), (i + 1) / 2);
  return { times: [...seen.keys()], counts: [...seen.values()] };
}

function ratesOf({ times, counts }: Arrivals) {
  if (counts.length < 2) throw new Error('all results came within one ms; there is no rate to tell');
  const first = counts[0] as number;
  const total = (counts.at(-1) as number) - first;
  const timeOf = (count: number) => {
    const at = counts.findIndex((seen) => seen >= count - 1e-6);
    if (at === 0) return times[0] as number;
    const [before, after] = [counts[at - 1] as number, counts[at] as number];
    const [from, to] = [times[at - 1] as number, times[at] as number];
    return from + ((to - from) * (count - before)) / (after - before);
  };
  const rateBetween = (from: number, to: number) => ((to - from) * 1000) / (timeOf(to) - timeOf(from));
  const step = total / WINDOWS;
  return {
    windowRates: Array.from({ length: WINDOWS }, (_, i) =>
      rateBetween(first + step * i, first + step * (i + 1)),
    ),
    rate: rateBetween(first, first + total),
  };
}

if (process.send) {
  let opened: Opened | undefined;
  let runs = 0;
  serveParent(
    async (asked): Promise<QueueAnswer | undefined> => {
      const question = asked as QueueQuestion;
      if (question.kind === 'open') {
        opened = openQueues(question);
        return undefined;
      }
      if (!opened) throw new Error('not opened');
      if (question.kind === 'drained') return measureDrain(opened, question.records);
      const measure = question.kind === 'latency' ? measureLatency : measureBurst;
      return measure(opened, question.records, runs++);
    },
    async () => {
      opened?.redis.disconnect();
      await opened?.inputQueue.close();
      await opened?.outputQueue.close();
    },
  );
}
