/**
 * How much more memory the poller and the batch function need for each further message that is queued, as a share of the
 * message: nothing, if the queue is not held in memory. The emulator, which holds it, is in another process.
 */

import { encodeMessage } from '../../lib/codecs/message.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { QueueSender } from '../../lib/queue/sender.ts';
import type { Bench, Scenario } from '../bench.ts';
import { spreadOf } from '../measure.ts';
import { inputsOf } from '../messages.ts';
import { randomRows } from '../models.ts';
import { startChild } from '../processes/child.ts';
import type { PollerProcess } from '../processes/poller.ts';

const FEW = 128;
const MANY = 1_152;
/** No less than the poller's function timeout. */
const VISIBILITY_SECONDS = 10;

export const memory: Scenario = {
  name: 'memory',
  about: 'memory that each further queued message costs the poller and the batch function',
  async run(bench) {
    const shares: number[] = [];
    const [few, many, resident]: [number[], number[], number[]] = [[], [], []];
    let messageBytes = 0;
    for (let repeat = 0; repeat < bench.repeats; repeat++) {
      const [less, more] = [await drained(bench, FEW, repeat), await drained(bench, MANY, repeat)];
      messageBytes = more.messageBytes;
      shares.push((100 * (more.liveBytes - less.liveBytes)) / (MANY - FEW) / messageBytes);
      few.push(less.liveBytes / 1e6);
      many.push(more.liveBytes / 1e6);
      resident.push(more.residentBytes / 1e6);
    }
    return [
      {
        scenario: 'memory',
        name: `messages of ${Math.round(messageBytes / 1000)} kB, ${FEW} queued and ${MANY.toLocaleString('en-US')}`,
        metric: 'live memory a further message',
        unit: '% of it',
        raw: spreadOf(few).median,
        ours: spreadOf(many).median,
        baseUnit: 'MB',
        value: spreadOf(shares),
        note: `resident at most ${spreadOf(resident).high.toFixed(0)} MB`,
      },
    ];
  },
};

async function drained(bench: Bench, records: number, repeat: number) {
  const model = await bench.model('wide');
  const aws = await bench.aws();
  const inputs = inputsOf(model, elementAt(randomRows(91, model.rowShape, 1), 0, 'rows'));
  const bodies = Array.from({ length: records }, (_, i) =>
    encodeMessage(`${repeat}-${records}-${i}`, inputs),
  );
  const { url: queueUrl } = await aws.createQueue({ name: 'memory', visibilitySeconds: VISIBILITY_SECONDS });
  const sender = new QueueSender(aws.sqs, { queueUrl });
  await Promise.all(bodies.map((body) => sender.send(body)));
  const child = await startChild<PollerProcess>('poller', {
    environment: aws.environment,
    flags: ['--expose-gc'],
  });
  try {
    const { url: redisUrl } = await bench.redis();
    const read = await child.call('drain', { model, redisUrl, queueUrl, endpoint: aws.url, records });
    return { ...read, messageBytes: bodies[0]?.length ?? 0 };
  } finally {
    await child.close();
  }
}
