/**
 * The memory and the time in which poller and batch function empty a queue of so many messages. The emulated SQS lives in
 * another process: processor time is that of poller and function alone, time on the clock waits for the emulator too.
 * V8 lets garbage lie while there is room, so its young generation is kept small here, and what is held is looked at
 * right after collections.
 */
import { Redis } from 'ioredis';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { indexKey } from '../../../lib/contract/names.ts';
import { openSqs } from '../../../lib/queue/sender.ts';
import type { PollerOptions } from '../../../local/event-source/options.ts';
import { startPoller } from '../../../local/event-source/poller.ts';
import { inputsOf } from '../../messages.ts';
import { randomRows } from '../../models.ts';
import { QUIET } from '../../quiet.ts';
import { JOB, serve } from '../../served.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import { heldBytes } from '../memory.ts';
import { modelGiven, modelOf } from '../models.ts';
import type { QueueServerAnswer } from '../processes/queue-server.ts';

const SERIES = 'batches of up to 256';
const BATCH = 256;
/** Enough garbage for the heap to be as large as it gets. */
const WARM_UP_MESSAGES = 2_000;
const YOUNG_MB = 4;
/** A look costs 20 ms. */
const LOOK_EVERY_MESSAGES = 1_000;
const LOOK_EVERY_MS = 5;
const LIMIT_MS = 100_000;
const FLAT = 0.25;

export const curve: Curve = {
  name: 'depth',
  about: 'poller and batch function by the messages that wait',
  repeats: 2,
  flags: [`--max-semi-space-size=${YOUNG_MB}`],
  xLabel: 'messages in the queue',
  series: [{ name: SERIES, xs: [100, 1_000, 5_000, 20_000], quickXs: [100, 500, 2_000] }],
  metrics: [
    TIME,
    CPU,
    { key: 'usPerMessage', label: 'processor time, a message', unit: 'us' },
    { ...PEAK, atMost: FLAT, floor: 16e6 },
    { key: 'heldBytes', label: 'held meanwhile, at most', unit: 'bytes', atMost: FLAT, floor: 2e6 },
    { ...RETAINED, atMost: FLAT },
  ],
  async prepare(growth) {
    const model = await growth.bench.model('mlp');
    const redis = await growth.redis();
    const queues = await growth.queues();
    const [data] = randomRows(64, model.rowShape, 1);
    const body = encodeMessage('message-{n}', inputsOf(model, data as Float32Array));
    return async (_, x, repeat) => {
      const fill = (name: string, messages: number) =>
        queues({ name: `${name}-${x}-${repeat}`, messages, body });
      return {
        ...modelGiven(model),
        redisUrl: redis.url,
        warm: JSON.stringify(await fill('warm', WARM_UP_MESSAGES)),
        queue: JSON.stringify(await fill('queue', x)),
      };
    };
  },
  // The looks are ours, not the poller's.
  derive: ({ cpuMs: withLooks = Number.NaN, lookCpuMs = 0 }, x) => {
    const cpuMs = withLooks - lookCpuMs;
    return { cpuMs, usPerMessage: (cpuMs * 1000) / x };
  },
};

export const open: OpenWork = async ({ x, given }) => {
  const { redisUrl = '' } = given;
  const served = serve(modelOf(given), redisUrl, BATCH);
  const redis = new Redis(redisUrl);
  const looks = new Looks();
  const empty = async (queue: string | undefined, messages: number) => {
    await redis.flushdb();
    await emptyQueue(JSON.parse(queue ?? '') as QueueServerAnswer, messages, async (event) => {
      const answer = await served.batch(event);
      looks.look(event.Records.length);
      return answer;
    });
  };
  let isWarm = false;
  return {
    once: true,
    warmUp: async () => {
      if (!isWarm) await empty(given['warm'], WARM_UP_MESSAGES);
      isWarm = true;
    },
    prepare: async () => looks.begin(),
    facts: async () => looks.facts(),
    call: () => empty(given['queue'], x),
    verify: async () => {
      const found = await redis.zcard(indexKey(JOB));
      if (found !== x) throw new Error(`${found} results of ${x} messages`);
    },
    close: async () => {
      redis.disconnect();
      await served.close();
    },
  };
};

/** What is held within an event, when all of it is there, and what looking at it costs. */
class Looks {
  #before = 0;
  #seen = 0;
  #heldMost = 0;
  #cpuMs = 0;

  begin(): void {
    this.#before = heldBytes().liveBytes;
    this.#heldMost = 0;
    this.#cpuMs = 0;
    this.#seen = 0;
  }

  look(records: number): void {
    const before = this.#seen;
    this.#seen += records;
    const isDue = Math.floor(before / LOOK_EVERY_MESSAGES) !== Math.floor(this.#seen / LOOK_EVERY_MESSAGES);
    if (before > 0 && !isDue) return;
    const cpuBegin = process.cpuUsage();
    this.#heldMost = Math.max(this.#heldMost, heldBytes().liveBytes);
    const { user, system } = process.cpuUsage(cpuBegin);
    this.#cpuMs += (user + system) / 1000;
  }

  facts() {
    return { heldBytes: Math.max(0, this.#heldMost - this.#before), lookCpuMs: this.#cpuMs };
  }
}

/** Polls until so many messages are deleted. @throws after LIMIT_MS */
async function emptyQueue(
  { queueUrl, endpoint, region }: QueueServerAnswer,
  messages: number,
  handler: PollerOptions['handler'],
): Promise<void> {
  const sqs = openSqs({ endpoint, region });
  const poller = await startPoller({
    sqs,
    queueUrl,
    handler,
    functionName: 'batch',
    batchSize: BATCH,
    windowSeconds: 1,
    maximumConcurrency: 2,
    functionTimeoutMs: 30_000,
    waitSeconds: 1,
    log: QUIET,
  });
  const begin = performance.now();
  while (poller.stats().deleted < messages) {
    if (performance.now() - begin > LIMIT_MS) throw new Error(`${poller.stats().deleted} of ${messages}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  await poller.close();
  sqs.destroy();
}
