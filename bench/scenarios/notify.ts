/**
 * What notices add to a record in the batch function: saving a chunk whose records name no target, and one whose records do. S3 is that
 * of a single machine, so its time is not AWS's; the calls are.
 */
import { connect, openResults } from '../../lib/compose/store.ts';
import { encodeObjectEvent, readParcels } from '../../lib/notify/parcels.ts';
import { announceOutcomes } from '../../lib/results/announce.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { OutboxWriter } from '../../lib/s3/outbox.ts';
import { OutboxReader } from '../../lib/s3/outbox-reader.ts';
import type { Bench, Scenario } from '../bench.ts';
import { type Contender, interleave, type Measured, pairwise, spreadOf } from '../measure.ts';
import type { Line, Row } from '../report.ts';
import { JOB } from '../served.ts';

const BUCKET = 'notices';
const CHUNKS = [1, 10, 32];
const REPEAT_MS = 600;
/** Example prices of docs/explanation/costs.md, in dollars for a million. */
const PRICE = { put: 5, get: 0.4, sqs: 0.4, lambda: 0.2 };
/** Events of S3 that one call of the notifier takes. */
const EVENTS_PER_CALL = 10;

export const notify: Scenario = {
  name: 'notify',
  about: 'what notices add to a queued record: time, calls of S3, dollars',
  async run(bench) {
    const lines: Line[] = [];
    for (const records of CHUNKS.filter((size) => bench.wants(`chunks of ${size}`)))
      lines.push(...(await measureChunk(bench, records)));
    return lines;
  },
};

async function measureChunk(bench: Bench, records: number): Promise<Row[]> {
  const [redis, aws] = [await bench.redis(), await bench.aws()];
  await aws.createBucket(BUCKET);
  const connection = connect({ redisUrl: redis.url });
  const results = openResults(connection, { job: JOB, ttlSeconds: 600, now: Date.now });
  const writer = new OutboxWriter(aws.s3, BUCKET, JOB);
  const reader = new OutboxReader(aws.s3, BUCKET, JOB);
  let puts = 0;
  const announce = announceOutcomes({
    targets: { shop: { url: 'https://shop.example/' } },
    results,
    put: (notices) => (puts++, writer.put(notices)),
    job: JOB,
    place: BUCKET,
  });
  const sink = resultSink(results, { announce });
  let made = 0;
  const calls = { off: 0, on: 0 };
  const contender = (name: keyof typeof calls, notified: object): Contender => ({
    name,
    call: async () => {
      const event = made++;
      const before = puts;
      const finished = Array.from({ length: records }, (_, i) => ({
        id: `m${i}`,
        uri: `event-${event}-${i}`,
        enqueue: { identity: `i-${event}-${i}`, sentAt: 1, replays: 0, ...notified },
        outcome: {
          ok: true as const,
          outputs: [{ name: 'y', dtype: 'float32' as const, shape: [10], data: new Float32Array(10) }],
        },
      }));
      const again = await sink.save(finished, 'v1');
      calls[name] = puts - before;
      if (again.length > 0) throw new Error(`${name}: records came back`);
    },
    // The objects are read when all have been measured.
    verify: () => undefined,
  });
  try {
    const plan = { repeats: bench.repeats, repeatMs: bench.ms(REPEAT_MS), blockMs: 100 };
    const contenders = [contender('off', {}), contender('on', { notify: 'shop' })];
    const measured = await interleave(contenders, plan);
    await assertAnnounced(reader, records);
    return rowsOf(records, measured, calls);
  } finally {
    await results.close();
  }
}

/** The notices of an object are those of a chunk. */
async function assertAnnounced(reader: OutboxReader, records: number): Promise<void> {
  for await (const page of reader.pages()) {
    const [first] = page;
    const { parcels } = await readParcels(encodeObjectEvent(first?.key ?? ''), (key) => reader.read(key));
    if (parcels.length !== records)
      throw new Error(`an object has ${parcels.length} notices, not ${records}`);
    await reader.remove(page.map(({ key }) => key));
  }
}

function rowsOf(records: number, [off, on]: readonly Measured[], calls: { off: number; on: number }): Row[] {
  if (!off || !on) throw new Error('nothing was measured');
  const row = { scenario: 'notify', name: `chunks of ${records}` };
  const perChunk = PRICE.put + PRICE.get + (3 * PRICE.sqs + PRICE.lambda) / EVENTS_PER_CALL;
  return [
    {
      ...row,
      metric: 'added processor time a record',
      unit: 'us',
      raw: (spreadOf(off.cpuMs).median * 1000) / records,
      ours: (spreadOf(on.cpuMs).median * 1000) / records,
      baseUnit: 'us',
      value: pairwise(on.cpuMs, off.cpuMs, (a, b) => ((a - b) * 1000) / records),
      note: 'with the S3 of one machine, which is in this process',
    },
    {
      ...row,
      metric: 'objects a chunk',
      unit: '',
      raw: calls.off,
      ours: calls.on,
      value: spreadOf([calls.on]),
      note: `records without a target: ${calls.off}`,
    },
    { ...row, metric: 'dollars for a million records', unit: '$', value: spreadOf([perChunk / records]) },
  ];
}
