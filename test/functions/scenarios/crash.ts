/**
 * F3: kills the batch worker at a named moment, with a seed. After redelivery every uri has exactly one outcome. The
 * packaged bundle is tested as deployed, so moments are detected from outside, by the requests and commands that pass
 * the proxies.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { indexKey, modelPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { deliverAll, expire, invoke, receive, remove, type Source } from '../../support/faults/events.ts';
import { History } from '../../support/faults/history.ts';
import { type HttpProxy, startHttpProxy } from '../../support/faults/http-proxy.ts';
import { lineModel, lineOf, modelFolder, record, slowModel } from '../../support/faults/model.ts';
import {
  type CommandFate,
  PASS,
  type RedisProxy,
  startRedisProxy,
} from '../../support/faults/redis/proxy.ts';
import { type Random, seeded, whole } from '../../support/faults/seeds.ts';
import { BUCKET, JOB, type Queue, startQueue } from '../../support/faults/service.ts';
import { type Bundles, startWorker, type Worker } from '../../support/faults/worker.ts';
import { redisUrl } from '../../support/redis.ts';

/** What a moment is set up with; `die` ends the worker and is to be called at the moment. */
export interface Scene {
  readonly s3: HttpProxy;
  readonly redis: RedisProxy;
  /** Between the event source and SQS. */
  readonly sqs: HttpProxy;
  readonly random: Random;
  readonly worker: Worker;
  readonly die: () => void;
}

export interface Moment {
  readonly name: string;
  /** Records of the event; a tenth of them through S3. Default 20. */
  readonly records?: number;
  readonly slow?: boolean;
  /** Events that are served before the one in which it happens. */
  readonly warm?: boolean;
  /** It happens in INIT: no event reaches the worker. */
  readonly starting?: boolean;
  readonly arrange: (scene: Scene) => void;
}

/** Only the script that saves results names the index. */
const INDEX = indexKey(JOB);

/** Does something to the n-th (from 0) call that saves results. */
const atSave = (nth: number, fate: (scene: Scene, bytes: number) => CommandFate) => (scene: Scene) => {
  let saves = 0;
  scene.redis.onCommand = ({ bytes }) =>
    bytes.includes(INDEX) && saves++ === nth ? fate(scene, bytes.length) : PASS;
};

const atS3 = (part: string, fate: (scene: Scene) => ReturnType<HttpProxy['onRequest']>) => (scene: Scene) => {
  let met = false;
  scene.s3.onRequest = ({ path }) => {
    if (met || !path.includes(part)) return { kind: 'pass' };
    met = true;
    return fate(scene);
  };
};

export const MOMENTS: readonly Moment[] = [
  {
    name: 'in INIT, before the model is asked for',
    starting: true,
    arrange: atS3('current.json', ({ die }) => ({ kind: 'stall', share: 0, after: die })),
  },
  {
    name: 'in INIT, with a part of the model downloaded',
    starting: true,
    arrange: atS3('model.onnx', ({ die, random }) => ({
      kind: 'cut',
      share: random() * 0.9 + 0.05,
      after: die,
    })),
  },
  {
    name: 'in INIT, with the model downloaded and not open',
    starting: true,
    arrange: atS3('model.onnx', ({ die }) => ({ kind: 'pass', after: die })),
  },
  { name: 'after receive, before anything is done', arrange: ({ die }) => setImmediate(die) },
  {
    name: 'when the first claim check is asked for',
    arrange: atS3('payloads/', ({ die }) => ({ kind: 'stall', share: 0, after: die })),
  },
  {
    name: 'with a part of a claim check read',
    arrange: atS3('payloads/', ({ die, random }) => ({ kind: 'cut', share: random(), after: die })),
  },
  {
    name: 'after a claim check is read',
    arrange: atS3('payloads/', ({ die }) => ({ kind: 'pass', after: die })),
  },
  { name: 'in the middle of a run', slow: true, arrange: ({ worker, die }) => void worker.busy().then(die) },
  {
    name: 'between run and Redis, when it connects',
    arrange: ({ redis, die }) => {
      redis.onConnect = () => {
        die();
        return 'silent';
      };
    },
  },
  {
    name: 'before the results reach Redis',
    arrange: atSave(0, ({ die }) => ({ kind: 'hold', after: die })),
  },
  {
    name: 'while it tells that the records are being run',
    arrange: ({ redis, die }) => {
      redis.onCommand = ({ name, bytes }) =>
        name.startsWith('EVAL') && !bytes.includes(INDEX) ? { kind: 'mute', after: die } : PASS;
    },
  },
  {
    name: 'with a part of the results at Redis',
    warm: true,
    arrange: atSave(0, ({ die, random }, bytes) => ({
      kind: 'cut',
      bytes: whole(random, 1, bytes - 1),
      after: die,
    })),
  },
  {
    name: 'when Redis has the results and its answer is on the way',
    warm: true,
    arrange: atSave(0, ({ die }) => ({ kind: 'mute', after: die })),
  },
  {
    name: 'with half of the answer of Redis',
    warm: true,
    arrange: atSave(0, ({ die }) => ({ kind: 'cutReply', bytes: 2, after: die })),
  },
  {
    name: 'between two calls that share an event of 1,200 records',
    records: 1_200,
    warm: true,
    arrange: atSave(1, ({ die }) => ({ kind: 'hold', after: die })),
  },
  {
    name: 'between write and acknowledgement',
    warm: true,
    arrange: ({ sqs, die }) => {
      sqs.onRequest = ({ action }) => {
        if (action !== 'AmazonSQS.DeleteMessageBatch') return { kind: 'pass' };
        die();
        return { kind: 'reset' };
      };
    },
  },
  {
    name: 'while the acknowledgement is under way, and it is lost',
    warm: true,
    arrange: ({ sqs, die }) => {
      let met = false;
      sqs.onRequest = ({ action }) => {
        if (met || action !== 'AmazonSQS.DeleteMessageBatch') return { kind: 'pass' };
        met = true;
        return { kind: 'lose', after: die };
      };
    },
  },
];

const CONFIG = JSON.stringify({ jobName: JOB });

/** On a machine so busy that Redis takes a second to answer, an event may come back before its moment. */
const TRIES = 3;

export async function crash(t: TestContext, bundles: Bundles, moment: Moment, seed: number): Promise<void> {
  for (let tries = 1; tries < TRIES; tries++) {
    const { died } = await crashOnce(t, bundles, moment, seed);
    if (died) return;
    t.diagnostic(`${moment.name}, seed ${seed}: the moment did not come, once more`);
  }
  const { died, output } = await crashOnce(t, bundles, moment, seed);
  assert.ok(died, `the moment never came: ${output}`);
}

/** @returns whether the moment came; nothing was looked at when it did not */
async function crashOnce(t: TestContext, bundles: Bundles, moment: Moment, seed: number) {
  const random = seeded(seed);
  const queue = await startQueue(t);
  const [s3, sqs] = [await startHttpProxy(t, queue.aws.url), await startHttpProxy(t, queue.aws.url)];
  const direct = await redisUrl(t);
  const redis = await startRedisProxy(t, direct);
  const temp = await mkdtemp(join(tmpdir(), 'cs-faults-tmp-'));
  t.after(() => rm(temp, { recursive: true, force: true }));
  const model = await modelFolder(temp, moment.slow ? slowModel() : lineModel());
  await publishModel(queue.aws.s3, { bucket: BUCKET, prefix: modelPrefix(JOB) }, model);
  const environment = {
    ...queue.aws.environment,
    AWS_ENDPOINT_URL: s3.url,
    CLUSTER_SERVING_BUCKET: BUCKET,
    CLUSTER_SERVING_REDIS_URL: redis.url,
    CLUSTER_SERVING_CONFIG: CONFIG,
  };
  const start = () => {
    const worker = startWorker(bundles.folder('batch'), temp, environment);
    t.after(async () => {
      worker.kill();
      await worker.ended;
    });
    return worker;
  };
  const history = new History();
  await history.listen(t, direct, JOB);

  const first = start();
  let died = false;
  const die = () => {
    died = true;
    first.kill();
  };
  const arrange = () => moment.arrange({ s3, redis, sqs, random, worker: first, die });
  if (moment.starting) arrange();
  if (moment.warm) {
    await enqueue(queue, history, 10, 0);
    await deliverAll(directly(queue), (event) => first.invoke(event));
  }
  await enqueue(queue, history, moment.records ?? 20, 1_000);
  if (!moment.starting && moment.name !== AFTER_RECEIVE) arrange();
  await deliverOnce(queue, sqs, first, moment.name === AFTER_RECEIVE ? arrange : () => undefined);
  if (!died) return { died, output: first.output() };
  await first.ended;

  s3.onRequest = () => ({ kind: 'pass' });
  sqs.onRequest = () => ({ kind: 'pass' });
  redis.onCommand = () => PASS;
  redis.onConnect = () => 'pass';
  const second = start();
  await deliverAll(directly(queue), (event) => second.invoke(event), { batchSize: 100 });
  await history.assertClean(direct, JOB, `${moment.name}, seed ${seed}\n${second.output()}`);
  return { died, output: '' };
}

const AFTER_RECEIVE = 'after receive, before anything is done';

const directly = (queue: Queue): Source => ({ sqs: queue.aws.sqs, queueUrl: queue.url });

async function enqueue(queue: Queue, history: History, count: number, first: number): Promise<void> {
  const sent = Array.from({ length: count }, async (_, i) => {
    const x = first + i;
    history.enqueued(`r-${x}`, lineOf(x));
    await (i % 10 === 3 ? queue.sendThroughS3 : queue.send)(`r-${x}`, record(x));
  });
  await Promise.all(sent);
}

/** One delivery of everything there is; what the worker did not acknowledge comes again. */
async function deliverOnce(queue: Queue, sqs: HttpProxy, worker: Worker, onSent: () => void): Promise<void> {
  const source = directly(queue);
  const proxied = { sqs: queue.sqsAt(sqs.url), queueUrl: queue.url };
  const records = await receive(source, 2_000);
  const delivering = invoke((event: SQSEvent) => worker.invoke(event), records);
  onSent();
  const done = await delivering;
  await remove(proxied, done).catch(() => undefined);
  // Those that were deleted have no visibility to end.
  await expire(source, records).catch(() => undefined);
}
