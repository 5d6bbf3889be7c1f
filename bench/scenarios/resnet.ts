/**
 * A model that takes 50 ms a row, as Cluster Serving's own benchmark has it. In: images as tensors (803 kB a message)
 * and as JPEGs. Out: how much longer the queue path takes than the same runs in a process: the batch function given
 * events, and the whole local stack from enqueue to the last result.
 * Trap: one row at a time and a batch are about equally fast; the limit is the faster of the two.
 */
import type { RecordInputs } from '../../sdk/inputs.ts';
import { BatchFunction } from '../batch-function.ts';
import type { Bench, Scenario } from '../bench.ts';
import { bgrPlanes, makeImage } from '../images.ts';
import { jobOf, type OpenStack, type QueueWork, withStack } from '../local-stack.ts';
import { pairwise, REPEATS, spreadOf } from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersFor } from '../raw.ts';
import type { Row } from '../report.ts';
import { type OursWay, openOurs } from '../ways.ts';

const SIZE = 224;
/** Lambda's 6 MB hold so many tensors of this size. */
const EVENT_RECORDS = 7;
const RECORDS = 2 * EVENT_RECORDS;
const RAW_MS = 400;
const TARGET = { atMost: 1.1 };

interface Kind {
  readonly name: string;
  readonly rows: readonly Float32Array[];
  readonly inputs: readonly RecordInputs[];
}

export const resnet: Scenario = {
  name: 'resnet',
  about: 'ResNet-50-sized model: the queue path against the same runs in a process',
  async run(bench) {
    const model = await bench.model('resnet');
    const rows: Row[] = [];
    for (const kind of await kindsOf(model)) {
      if (bench.wants(kind.name)) rows.push(...(await measureKind(bench, model, kind)));
    }
    return rows;
  },
};

async function kindsOf(model: BenchModel): Promise<Kind[]> {
  const tensors = randomRows(81, model.rowShape, EVENT_RECORDS);
  const images = await Promise.all(
    Array.from({ length: EVENT_RECORDS }, (_, i) => makeImage(200 + i, SIZE, SIZE)),
  );
  return [
    {
      name: 'ResNet-50, tensors',
      rows: tensors,
      inputs: tensors.map((data) => ({ [model.input]: { data, shape: model.rowShape } })),
    },
    {
      name: 'ResNet-50, JPEGs of 224x224',
      rows: images.map(({ jpegPixels }) => bgrPlanes(jpegPixels)),
      inputs: images.map(({ jpeg }) => ({ [model.input]: { bytes: jpeg } })),
    },
  ];
}

/** ms a record, one number for each repeat. */
interface Times {
  readonly raw: number[];
  readonly batch: number[];
  readonly stack: number[];
}

async function measureKind(bench: Bench, model: BenchModel, { name, rows, inputs }: Kind): Promise<Row[]> {
  const work: QueueWork = { model, inputs, answers: await answersFor(model, rows) };
  const job = jobOf('bench-resnet', { batchSize: 10, windowSeconds: 0 });
  const { url } = await bench.redis();
  const batch = await BatchFunction.start(work, url, EVENT_RECORDS);
  let inProcess: OursWay | undefined;
  try {
    inProcess = await openOurs(bench, 'bare', model);
    const raw = inProcess;
    const times = await withStack(bench, work, job, (stack) => measure(raw, batch, stack, rows));
    const rowOf = (way: string, ours: readonly number[]): Row => ({
      scenario: 'resnet',
      name: `${name}, ${way}`,
      metric: 'times in-process',
      unit: 'x',
      raw: spreadOf(times.raw).median,
      ours: spreadOf(ours).median,
      baseUnit: 'ms a record',
      value: pairwise(ours, times.raw, (a, b) => a / b),
      target: TARGET,
    });
    return [
      rowOf(`batch function, events of ${EVENT_RECORDS}`, times.batch),
      rowOf(`whole local stack, ${RECORDS} records from enqueue to the last result`, times.stack),
    ];
  } finally {
    await batch.close();
    await inProcess?.close();
  }
}

async function measure(
  inProcess: OursWay,
  batch: BatchFunction,
  stack: OpenStack,
  rows: readonly Float32Array[],
): Promise<Times> {
  const times: Times = { raw: [], batch: [], stack: [] };
  for (let repeat = -1; repeat < REPEATS; repeat++) {
    const oneByOne = await inProcess.rawRate(
      rows.map((row) => [row]),
      RAW_MS,
    );
    const together = (await inProcess.rawRate([rows], RAW_MS)) * rows.length;
    const drained = await batch.drain(EVENT_RECORDS, EVENT_RECORDS);
    const { ms } = await stack.ask({ kind: 'burst', records: RECORDS });
    // The first time warms all of them.
    if (repeat < 0) continue;
    times.raw.push(1000 / Math.max(oneByOne, together));
    times.batch.push(drained.ms / EVENT_RECORDS);
    times.stack.push((ms[0] as number) / RECORDS);
  }
  return times;
}
