/**
 * How long a record takes from enqueue to its result, one at a time. The local stack's SQS is an emulator in the process of
 * the handlers and costs more than both together: this shows whether the path got slower, not how fast it is on AWS.
 */
import type { Scenario } from '../bench.ts';
import { jobOf, withStack } from '../local-stack.ts';
import { quantile, spreadOf } from '../measure.ts';
import { tensorWork } from '../queue-work.ts';
import type { Row } from '../report.ts';

const RECORDS = 100;
const WARM_UP_RECORDS = 40;

export const queue: Scenario = {
  name: 'queue',
  about: 'enqueue to result on the local stack, one record at a time',
  async run(bench) {
    const work = await tensorWork(bench, 'mlp', 16);
    const job = jobOf('bench-latency', { batchSize: 10, windowSeconds: 0 });
    return withStack(bench, work, job, async (client, redisKind) => {
      await client.call('latency', WARM_UP_RECORDS);
      const repeats: Float64Array[] = [];
      for (let repeat = 0; repeat < bench.repeats; repeat++)
        repeats.push(await client.call('latency', RECORDS));
      return [0.5, 0.99].map((share): Row => {
        const value = spreadOf(repeats.map((sorted) => quantile(sorted, share)));
        const name = `MLP, enqueue to result, one at a time (${redisKind})`;
        return { scenario: 'queue', name, metric: `p${share * 100}`, unit: 'ms', value };
      });
    });
  },
};
