/** A client of the local stack's queue, in a process of its own as a user's is: in the stack's it would share its thread. */

import { Redis } from 'ioredis';
import { indexKey } from '../../lib/contract/names.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { InputQueue } from '../../sdk/input-queue.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { rowOfUri } from '../models.ts';
import { checkResults, type QueueWork } from '../queue-work.ts';
import { assertSame, floatsOf } from '../raw.ts';
import { serveParent } from './child.ts';

/** Where to find the stack, and what to send. */
interface OpenQuestion extends Omit<QueueWork, 'model'> {
  readonly job: string;
  readonly queueUrl: string;
  readonly endpoint: string;
  readonly region: string;
  readonly redisUrl: string;
}

interface Opened extends OpenQuestion {
  readonly inputQueue: InputQueue;
  readonly outputQueue: OutputQueue;
  readonly redis: Redis;
}

const DRAIN_LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 4;

let opened: Opened | undefined;
let runs = 0;

/** @returns the check of the result */
async function sendAndWait({ inputQueue, outputQueue, inputs, answers }: Opened, uri: string) {
  const row = rowOfUri(uri, inputs.length);
  await inputQueue.enqueue(uri, elementAt(inputs, row, 'inputs'));
  const result = await outputQueue.wait(uri);
  return () => assertSame(floatsOf(result.outputs[0]), elementAt(answers, row, 'answers'), uri);
}

const methods = {
  async open(question: OpenQuestion) {
    const { job, queueUrl, endpoint, region, redisUrl } = question;
    const inputQueue = new InputQueue({ name: job, queueUrl, endpoint, region });
    const outputQueue = new OutputQueue({ name: job, url: redisUrl });
    opened = { ...question, inputQueue, outputQueue, redis: new Redis(redisUrl) };
  },

  /** All at once, from the first enqueue to the last result. @returns ms */
  async burst(records: number): Promise<number> {
    const run = runs++;
    const begin = performance.now();
    const sent = Array.from({ length: records }, (_, i) =>
      sendAndWait(opened as Opened, `burst-${run}-${i}`),
    );
    const checks = await Promise.all(sent);
    const ms = performance.now() - begin;
    for (const check of checks) check();
    return ms;
  },

  /**
   * Waits until all results are there, and takes them.
   * @param warmUps of the records, which come first and are not counted
   * @returns records a second, from the first that counts to the last
   */
  async drained({
    records,
    warmUps,
  }: {
    readonly records: number;
    readonly warmUps: number;
  }): Promise<number> {
    const { redis, job, outputQueue, answers } = opened as Opened;
    const index = indexKey(job);
    const begin = performance.now();
    for (let count = 0; count < records; count = await redis.zcard(index)) {
      if (performance.now() - begin > DRAIN_LIMIT_MS) throw new Error(`${count} of ${records} results came`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
    const rate = await rateOf(redis, index, warmUps, records);
    await checkResults(outputQueue, answers, records);
    return rate;
  },
};

/**
 * The index is sorted by when a result expires, which is equally long after it was saved for each: the stack may have begun
 * before this process could look. Results saved in one batch share a time, so those of the first batch are left out.
 */
async function rateOf(redis: Redis, index: string, warmUps: number, records: number): Promise<number> {
  const [first, last] = await Promise.all(
    [warmUps, records - 1]
      .map(String)
      .map(async (at) => Number((await redis.zrange(index, at, at, 'WITHSCORES'))[1])),
  );
  if (first === undefined || last === undefined || last <= first) throw new Error('all results came at once');
  const upToFirst = await redis.zcount(index, '-inf', first);
  return ((records - upToFirst) * 1000) / (last - first);
}

export type QueueProcess = typeof methods;

if (import.meta.main) {
  serveParent(methods, async () => {
    opened?.redis.disconnect();
    await opened?.inputQueue.close();
    await opened?.outputQueue.close();
  });
}
