/**
 * In: the local stack. Out: how long a record takes from enqueue to its result, one at a time.
 * Trap: the local stack's SQS is an emulator in the process of the handlers, and costs more than both together; these
 * numbers say whether the path got slower, not how fast it is on AWS.
 */
import type { Scenario } from '../bench.ts';
import { jobOf, withStack } from '../local-stack.ts';
import {
  type Contender,
  interleave,
  type Measured,
  perRepeat,
  quantile,
  REPEATS,
  spreadOf,
} from '../measure.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { answersFor, openRaw } from '../raw.ts';
import type { Row } from '../report.ts';
import { rawContender } from './single.ts';

const INPUTS = 16;
const LATENCY_RECORDS = 100;
const WARM_UP_RECORDS = 40;
const RAW_MS = 100;

export const queue: Scenario = {
  name: 'queue',
  about: 'enqueue to result on the local stack, one record at a time',
  async run(bench) {
    const model = await bench.model('mlp');
    const rows = randomRows(31, model.rowShape, INPUTS);
    const answers = await answersFor(model, rows);
    const raw = await rawTimes(model, rows, answers);
    const inputs = rows.map((data) => ({ [model.input]: { data, shape: model.rowShape } }));
    const job = jobOf('bench-latency', { batchSize: 10, windowSeconds: 0 });
    return withStack(bench, { model, inputs, answers }, job, async (stack) => {
      await stack.ask({ kind: 'latency', records: WARM_UP_RECORDS });
      const repeats: Float64Array[] = [];
      for (let repeat = 0; repeat < REPEATS; repeat++)
        repeats.push((await stack.ask({ kind: 'latency', records: LATENCY_RECORDS })).ms);
      return [0.5, 0.99].map((share): Row => {
        const ours = spreadOf(repeats.map((sorted) => quantile(sorted, share)));
        return {
          scenario: 'queue',
          name: `MLP, enqueue to result, one at a time (${stack.redisKind})`,
          metric: `p${share * 100}`,
          unit: 'ms',
          raw: spreadOf(perRepeat(raw, (sorted) => quantile(sorted, share))).median,
          ours: ours.median,
          baseUnit: 'ms',
          value: ours,
        };
      });
    });
  },
};

async function rawTimes(
  model: BenchModel,
  rows: readonly Float32Array[],
  answers: readonly Float32Array[],
): Promise<Measured> {
  const session = await openRaw(model);
  try {
    const contenders = [rawContender('raw', session, rows, answers)] as Contender[];
    const [raw] = (await interleave(contenders, { repeatMs: RAW_MS })) as [Measured];
    return raw;
  } finally {
    await session.close();
  }
}
