/**
 * F1 and F2: duplicate, reordered and late deliveries, with a clean history for each seed. The queue is filled once
 * over the real protocol; each seed then delivers the received messages in its own order to its own job, because
 * receiving 10,000 messages a hundred times would test the queue rather than the service.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SQSRecord } from 'aws-lambda';
import { receive } from '../../support/faults/events.ts';
import { History, type Stored } from '../../support/faults/history.ts';
import { lineOf, mismatched, poison, record } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { pieces, type Random, seeded, shuffled, whole } from '../../support/faults/seeds.ts';
import { lineRunner, openWorker, type SqsHandler, startQueue } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';

export interface DeliveryCases {
  readonly messages: number;
  readonly seeds: number;
}

const WORKERS = 3;

async function filled(t: TestContext, messages: number): Promise<[SQSRecord[], Map<string, Stored>]> {
  const queue = await startQueue(t);
  const expected = new Map<string, Stored>();
  await Promise.all(
    Array.from({ length: messages }, async (_, i) => {
      const uri = `r-${i}`;
      const kind = i % 50;
      expected.set(uri, kind === 7 ? 'bad_input' : kind === 13 ? 'model_failed' : lineOf(i));
      await queue.send(uri, kind === 7 ? mismatched(i) : kind === 13 ? poison(i) : record(i));
    }),
  );
  const records = await receive({ sqs: queue.aws.sqs, queueUrl: queue.url }, messages);
  assert.equal(records.length, messages);
  return [records, expected];
}

async function eachSeed(
  t: TestContext,
  { messages, seeds }: DeliveryCases,
  deliver: (records: readonly SQSRecord[], workers: readonly SqsHandler[], random: Random) => Promise<void>,
): Promise<void> {
  quietLog(t);
  const [records, expected] = await filled(t, messages);
  const url = await redisUrl(t);
  const runner = await lineRunner(t);
  for (let seed = 1; seed <= seeds; seed++) {
    const job = `seed-${seed}`;
    const history = new History();
    for (const [uri, told] of expected) history.enqueued(uri, told);
    await history.listen(t, url, job);
    const workers: SqsHandler[] = [];
    for (let i = 0; i < WORKERS; i++) workers.push(await openWorker(t, { redisUrl: url, runner, job }));
    await deliver(records, workers, seeded(seed));
    await history.assertClean(url, job, `seed ${seed}`);
  }
}

/** Every message one to five times. */
export function duplicates(t: TestContext, cases: DeliveryCases): Promise<void> {
  return eachSeed(t, cases, async (records, workers, random) => {
    const deliveries = records.flatMap((message) => Array<SQSRecord>(whole(random, 1, 5)).fill(message));
    await deliverInParallel(pieces(random, shuffled(random, deliveries), 100), workers);
  });
}

/** Each message once, a third of them again after everything else is done. */
export function reordered(t: TestContext, cases: DeliveryCases): Promise<void> {
  return eachSeed(t, cases, async (records, workers, random) => {
    const late = records.filter(() => random() < 1 / 3);
    const punctual = shuffled(random, records).filter((message) => !late.includes(message) || random() < 0.5);
    await deliverInParallel(pieces(random, punctual, 30), workers);
    await deliverInParallel(pieces(random, shuffled(random, late), 30), workers);
  });
}

/** Each worker takes the next batch when it is done with the last; a message may be twice in one batch. */
async function deliverInParallel(batches: SQSRecord[][], workers: readonly SqsHandler[]): Promise<void> {
  const left = [...batches];
  await Promise.all(
    workers.map(async (worker) => {
      for (let batch = left.shift(); batch; batch = left.shift()) {
        const { batchItemFailures } = await worker({ Records: batch });
        assert.deepEqual(batchItemFailures, []);
      }
    }),
  );
}
