/**
 * A model of ResNet-50's size, which takes some 40 ms a row: how much longer the queue takes than the same runs in a
 * process. One row at a time and a batch are about equally fast; the limit is the faster of the two.
 */
import type { RecordInputs } from '../../sdk/inputs.ts';
import type { Bench, Scenario } from '../bench.ts';
import { bgrPlanes, makeImage } from '../images.ts';
import { jobOf, withStack } from '../local-stack.ts';
import { pairwise, spreadOf } from '../measure.ts';
import type { BatchProcess } from '../processes/batch-function.ts';
import { startChild } from '../processes/child.ts';
import type { ServerProcess } from '../processes/http-server.ts';
import { type QueueWork, tensorWork } from '../queue-work.ts';
import { answersFor } from '../raw.ts';
import type { Row } from '../report.ts';

const SIZE = 224;
/** Lambda's 6 MB hold this many tensors of this size. */
const EVENT_RECORDS = 7;
const RECORDS = 2 * EVENT_RECORDS;

interface Kind extends QueueWork {
  readonly name: string;
  readonly rows: readonly Float32Array[];
}

export const resnet: Scenario = {
  name: 'resnet',
  about: 'ResNet-50-sized model: the queue path against the same runs in a process',
  async run(bench) {
    const rows: Row[] = [];
    for (const kind of [tensors, jpegs]) rows.push(...(await measureKind(bench, await kind(bench))));
    return rows;
  },
};

/** 803 kB a message. */
async function tensors(bench: Bench): Promise<Kind> {
  const work = await tensorWork(bench, 'resnet', EVENT_RECORDS);
  const rowOf = (inputs: RecordInputs) => (inputs[work.model.input] as { data: Float32Array }).data;
  return { name: 'ResNet-50, tensors', ...work, rows: work.inputs.map(rowOf) };
}

/** Some 10 kB a message. */
async function jpegs(bench: Bench): Promise<Kind> {
  const model = await bench.model('resnet');
  const drawn = Array.from({ length: EVENT_RECORDS }, (_, i) => makeImage(200 + i, SIZE, SIZE));
  const images = await Promise.all(drawn);
  const rows = images.map(({ jpegPixels }) => bgrPlanes(jpegPixels));
  const inputs = images.map(({ jpeg }) => ({ [model.input]: { bytes: jpeg } }));
  const name = 'ResNet-50, JPEGs of 224x224';
  return { name, model, rows, inputs, answers: await answersFor(model, rows) };
}

async function measureKind(bench: Bench, { name, rows, ...work }: Kind): Promise<Row[]> {
  if (!bench.wants(name)) return [];
  const job = jobOf('bench-resnet', { batchSize: 10, windowSeconds: 0 });
  const { url: redisUrl } = await bench.redis();
  const batch = await startChild<BatchProcess>('batch-function', { role: 'server' });
  const inProcess = await startChild<ServerProcess>('http-server', { role: 'server' });
  const times = { raw: new Array<number>(), batch: new Array<number>(), stack: new Array<number>() };
  try {
    await batch.call('open', { work, redisUrl, batchSize: EVENT_RECORDS });
    await inProcess.call('openRaw', work.model);
    const rawRate = (batches: readonly (readonly Float32Array[])[]) =>
      inProcess.call('rawRate', { batches, ms: bench.ms(400) });
    await withStack(bench, work, job, async (client) => {
      // The first time warms all of them.
      for (let repeat = -1; repeat < bench.repeats; repeat++) {
        const oneByOne = await rawRate(rows.map((row) => [row]));
        const together = (await rawRate([rows])) * rows.length;
        const drained = await batch.call('drain', { records: EVENT_RECORDS, eventRecords: EVENT_RECORDS });
        const burstMs = await client.call('burst', RECORDS);
        if (repeat < 0) continue;
        times.raw.push(1000 / Math.max(oneByOne, together));
        times.batch.push(drained.ms / EVENT_RECORDS);
        times.stack.push(burstMs / RECORDS);
      }
    });
  } finally {
    await batch.close();
    await inProcess.close();
  }
  const rowOf = (way: string, ours: readonly number[]): Row => ({
    scenario: 'resnet',
    name: `${name}, ${way}`,
    metric: 'times in-process',
    unit: 'x',
    raw: spreadOf(times.raw).median,
    ours: spreadOf(ours).median,
    baseUnit: 'ms a record',
    value: pairwise(ours, times.raw, (a, b) => a / b),
  });
  return [
    rowOf(`batch function, events of ${EVENT_RECORDS}`, times.batch),
    rowOf(`whole local stack, ${RECORDS} records from enqueue to the last result`, times.stack),
  ];
}
