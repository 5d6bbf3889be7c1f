/**
 * In: queues of 128 and of 1,152 messages. Out: how much more memory the poller and the batch function need for each
 * message that is queued beyond, as a share of the message: nothing, if the queue is not held in memory.
 * Trap: the emulator holds the messages; so it is in this process, and what is measured is in another, a new one each
 * time.
 */
import { encodeMessage } from '../../lib/codecs/message.ts';
import { QueueSender } from '../../lib/queue/sender.ts';
import { type LocalAws, startAws } from '../../local/aws/aws.ts';
import type { Bench, Scenario } from '../bench.ts';
import { REPEATS, spreadOf } from '../measure.ts';
import { inputsOf } from '../messages.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { startChild } from '../processes/child.ts';
import type { PollerAnswer, PollerQuestion } from '../processes/poller.ts';
import { QUIET } from '../quiet.ts';

const FEW = 128;
const MANY = 1_152;
/** No less than the poller's function timeout. */
const VISIBILITY_SECONDS = 10;
/** A queue in memory would be 100 and more. */
const TARGET_PERCENT = 5;

export const memory: Scenario = {
  name: 'memory',
  about: 'memory that each further queued message costs the poller and the batch function',
  async run(bench) {
    const model = await bench.model('wide');
    const [data] = randomRows(91, model.rowShape, 1) as [Float32Array];
    const bodyOf = (uri: string) => encodeMessage(uri, inputsOf(model, data));
    const aws = await startAws({ port: 0, log: QUIET });
    try {
      const shares: number[] = [];
      const live: number[][] = [];
      let resident = 0;
      for (let repeat = 0; repeat < REPEATS; repeat++) {
        const few = await drained(bench, aws, model, FEW, (i) => bodyOf(`few-${repeat}-${i}`));
        const many = await drained(bench, aws, model, MANY, (i) => bodyOf(`many-${repeat}-${i}`));
        const slope = (many.liveBytes - few.liveBytes) / (MANY - FEW);
        shares.push((100 * slope) / bodyOf('many-0-0').length);
        live.push([few.liveBytes / 1e6, many.liveBytes / 1e6]);
        resident = Math.max(resident, many.residentBytes / 1e6);
      }
      const column = (i: number) => spreadOf(live.map((each) => each[i] as number)).median;
      return [
        {
          scenario: 'memory',
          name: `messages of ${Math.round(bodyOf('many-0-0').length / 1000)} kB, ${FEW} queued and ${MANY.toLocaleString('en-US')}`,
          metric: 'live memory a further message',
          unit: '% of it',
          raw: column(0),
          ours: column(1),
          baseUnit: 'MB',
          value: spreadOf(shares),
          target: { atMost: TARGET_PERCENT },
          note: `resident at most ${resident.toFixed(0)} MB`,
        },
      ];
    } finally {
      await aws.close();
    }
  },
};

async function drained(
  bench: Bench,
  aws: LocalAws,
  model: BenchModel,
  records: number,
  bodyOf: (i: number) => string,
): Promise<PollerAnswer> {
  const { url: queueUrl } = await aws.createQueue({
    name: 'bench-memory',
    visibilitySeconds: VISIBILITY_SECONDS,
  });
  const sender = new QueueSender(aws.sqs, { queueUrl });
  await Promise.all(Array.from({ length: records }, (_, i) => sender.send(bodyOf(i))));
  const child = await startChild<PollerQuestion, PollerAnswer>('poller', {
    environment: aws.environment,
    flags: ['--expose-gc'],
  });
  try {
    const { url: redisUrl } = await bench.redis();
    const { url: endpoint, region } = aws;
    return await child.ask({ model, redisUrl, queueUrl, endpoint, region, records });
  } finally {
    await child.close();
  }
}
