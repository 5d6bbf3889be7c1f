/**
 * In: a stack's addresses and rows with their answers. Out: how long enqueue to wait takes, and how fast a full queue
 * empties. Trap: the client is a process of its own, as a user's is: in the stack's process it would share its thread.
 */
import { Redis } from 'ioredis';
import { InputQueue } from '../../lib/client/input-queue.ts';
import { OutputQueue } from '../../lib/client/output-queue.ts';
import { indexKey } from '../../lib/contract/names.ts';
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
      readonly input: string;
      readonly rowShape: readonly number[];
      readonly rows: readonly Float32Array[];
      readonly answers: readonly Float32Array[];
    }
  /** One record after the other: enqueue, wait for its result. */
  | { readonly kind: 'latency'; readonly records: number }
  /** Waits until `records` results are there. */
  | { readonly kind: 'drained'; readonly records: number };

export interface QueueAnswer {
  /** Latency: ms of each record, ascending. Drained: ms, since the first look, at which each fifth was done. */
  readonly ms: Float64Array;
}

type Opened = Extract<QueueQuestion, { kind: 'open' }> & {
  readonly inputQueue: InputQueue;
  readonly outputQueue: OutputQueue;
  readonly redis: Redis;
};

/** The row of a record is told by its uri. */
export function rowOfUri(uri: string, rows: number): number {
  return Number(uri.slice(uri.lastIndexOf('-') + 1)) % rows;
}

const DRAIN_LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 4;
export const WINDOWS = 5;

function openQueues(question: Extract<QueueQuestion, { kind: 'open' }>): Opened {
  const { job, queueUrl, endpoint, region, redisUrl } = question;
  return {
    ...question,
    inputQueue: new InputQueue({ name: job, queueUrl, endpoint, region }),
    outputQueue: new OutputQueue({ name: job, url: redisUrl }),
    redis: new Redis(redisUrl),
  };
}

async function measureLatency(opened: Opened, records: number, run: number): Promise<QueueAnswer> {
  const { inputQueue, outputQueue, input, rows, rowShape, answers } = opened;
  const latencies: number[] = [];
  for (let record = 0; record < records; record++) {
    const uri = `latency-${run}-${record}`;
    const row = rowOfUri(uri, rows.length);
    const data = rows[row] as Float32Array;
    const begin = performance.now();
    await inputQueue.enqueue(uri, { [input]: { data, shape: rowShape } });
    const result = await outputQueue.wait(uri);
    latencies.push(performance.now() - begin);
    assertSame(result.outputs[0]?.data as Float32Array, answers[row] as Float32Array, uri);
  }
  return { ms: Float64Array.from(latencies).sort() };
}

/** Times by which a first result, then each fifth of all were there; then checks every one of them. */
async function measureDrain(opened: Opened, records: number): Promise<QueueAnswer> {
  const { redis, job, outputQueue, rows, answers } = opened;
  const begin = performance.now();
  const times: number[] = [];
  const counts: number[] = [];
  for (let count = 0; count < records; ) {
    if (performance.now() - begin > DRAIN_LIMIT_MS) throw new Error(`${count} of ${records} results came`);
    const seen = await redis.zcard(indexKey(job));
    if (seen > count) {
      times.push(performance.now() - begin);
      counts.push(seen);
    }
    count = seen;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  let checked = 0;
  for await (const { uri, ...rest } of outputQueue.drain()) {
    if ('error' in rest) throw rest.error;
    const expected = answers[rowOfUri(uri, rows.length)] as Float32Array;
    assertSame(rest.result.outputs[0]?.data as Float32Array, expected, uri);
    checked++;
  }
  if (checked !== records) throw new Error(`${checked} results instead of ${records}`);
  return { ms: windowRates(times, counts) };
}

/** Records a second in each fifth of the time between the first and the last result. */
function windowRates(times: readonly number[], counts: readonly number[]): Float64Array {
  const first = counts[0] as number;
  const step = ((counts.at(-1) as number) - first) / WINDOWS;
  const timeOf = (count: number) => {
    const at = counts.findIndex((seen) => seen >= count - 1e-6);
    if (at === 0) return times[0] as number;
    const [before, after] = [counts[at - 1] as number, counts[at] as number];
    const [from, to] = [times[at - 1] as number, times[at] as number];
    return from + ((to - from) * (count - before)) / (after - before);
  };
  return Float64Array.from({ length: WINDOWS }, (_, i) => {
    const ms = timeOf(first + step * (i + 1)) - timeOf(first + step * i);
    return (step * 1000) / ms;
  });
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
      return question.kind === 'latency'
        ? measureLatency(opened, question.records, runs++)
        : measureDrain(opened, question.records);
    },
    async () => {
      opened?.redis.disconnect();
      await opened?.inputQueue.close();
      await opened?.outputQueue.close();
    },
  );
}
