/** F22: what a function still asks of Redis, S3 and SQS, or waits for, when it has answered. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { publishModel } from '../../../../lib/registry/publish.ts';
import { addModel, modelFolder } from '../../../local/swap/models.ts';
import { type Random, seeded, whole } from '../../../support/faults/seeds.ts';
import type { Bundles } from '../../../support/faults/worker.ts';
import type { LambdaEnvironment } from './environment.ts';
import { batchEvent, deliver, type HttpAnswer, httpEvent, LOCATION, openScene, xMessage } from './scene.ts';

type Scene = Awaited<ReturnType<typeof openScene>>;
type Call = (environment: LambdaEnvironment, round: number) => Promise<void>;

const ROUNDS = 6;
/** What was left would be seen within this. */
const LOOK_MS = 250;

const answered =
  (status: number, event: (round: number) => object): Call =>
  async (environment, round) => {
    const { statusCode, body } = await environment.invoke<HttpAnswer>(event(round));
    assert.equal(statusCode, status, body);
  };
const record = (round: number) => ({ uri: `sent-${round}`, instances: [{ x: [round] }] });

/** Every function, each with what it is asked for. */
export const CALLS: Readonly<
  Record<
    string,
    {
      readonly of: 'predict' | 'batch' | 'predictions' | 'status' | 'dead-letter';
      readonly calls: readonly Call[];
    }
  >
> = {
  predict: {
    of: 'predict',
    calls: [
      answered(200, (round) => httpEvent('POST', '/predict', {}, { instances: [{ x: [round] }] })),
      answered(202, (round) => httpEvent('POST', '/predict', { prefer: 'respond-async' }, record(round))),
    ],
  },
  batch: {
    of: 'batch',
    calls: [
      async (environment, round) =>
        assert.deepEqual(
          await deliver(environment, batchEvent({ [`a-${round}`]: xMessage(`a-${round}`, 1) })),
          [],
        ),
      // Redelivered, so it runs in a process of its own.
      async (environment, round) =>
        assert.deepEqual(
          await deliver(environment, batchEvent({ [`b-${round}`]: xMessage(`b-${round}`, 1) }, 2)),
          [],
        ),
    ],
  },
  'POST /predictions': {
    of: 'predictions',
    calls: [answered(202, (round) => httpEvent('POST', '/predictions', {}, record(round)))],
  },
  'GET /predictions': {
    of: 'predictions',
    calls: [
      // Waits, and there is none.
      answered(404, (round) => httpEvent('GET', `/predictions?uri=none-${round}`, { prefer: 'wait=1' })),
      answered(404, (round) => httpEvent('DELETE', `/predictions?uri=none-${round}`)),
      answered(200, (round) => httpEvent('GET', `/status?uri=none-${round}`)),
      answered(200, () => httpEvent('DELETE', '/predictions')),
    ],
  },
  status: {
    of: 'status',
    calls: [
      answered(200, () => httpEvent('GET', '/ready')),
      answered(200, () => httpEvent('GET', '/metrics')),
    ],
  },
  'dead-letter': {
    of: 'dead-letter',
    calls: [
      async (environment, round) =>
        assert.deepEqual(
          await deliver(environment, batchEvent({ [`d-${round}`]: xMessage(`d-${round}`, 1) }, 6)),
          [],
        ),
    ],
  },
};

/** No call of a frozen function is left without its answer, and none is made after the function's own. */
export async function leavesNothing(
  t: TestContext,
  bundles: Bundles,
  name: string,
  seed: number,
): Promise<void> {
  const random = seeded(seed);
  const { of, calls } = CALLS[name] ?? assert.fail();
  const scene = await openScene(t, bundles, { modelRefreshSeconds: 1 });
  await publishModel(scene.bucket, LOCATION, await modelFolder(t, addModel(1)));
  const environment = scene.start(of, { variables: await variablesOf(scene, name) });
  await environment.ready;
  await assertQuiet(scene, `${name} after INIT`);
  for (let round = 0; round < ROUNDS; round++) {
    await publishModel(scene.bucket, LOCATION, await modelFolder(t, addModel(2 + (round % 2))));
    for (const [i, call] of calls.entries()) {
      await call(environment, round);
      await assertQuiet(scene, `${name}, call ${i} of round ${round}`);
      await sleep(random, scene, environment);
    }
  }
}

async function variablesOf({ aws, redis }: Scene, name: string): Promise<Record<string, string>> {
  const { url } = await aws.createQueue({ name: 'frozen' });
  const CLUSTER_SERVING_QUEUE_URL = url;
  if (name === 'predict') return { CLUSTER_SERVING_QUEUE_URL };
  if (name === 'POST /predictions') return { CLUSTER_SERVING_QUEUE_URL, CLUSTER_SERVING_REDIS_URL: '' };
  return { CLUSTER_SERVING_REDIS_URL: redis.url };
}

async function sleep(random: Random, { s3, redis }: Scene, environment: LambdaEnvironment): Promise<void> {
  environment.freeze();
  if (random() < 0.5) s3.resetAll();
  if (random() < 0.5) redis.resetAll();
  await pause(whole(random, 0, 1_200));
  environment.thaw();
}

async function assertQuiet({ s3, redis }: Scene, when: string): Promise<void> {
  const before = { asked: [...s3.seen], commands: [...redis.seen], replies: redis.replies };
  assert.equal(s3.waiting, 0, `${when}: ${s3.seen.at(-1)} had no answer yet`);
  await pause(LOOK_MS);
  assert.deepEqual(s3.seen.slice(before.asked.length), [], `${when}: asked after the answer`);
  assert.deepEqual(redis.seen.slice(before.commands.length), [], `${when}: sent after the answer`);
  assert.equal(redis.replies, before.replies, `${when}: ${redis.seen.at(-1)} had no reply yet`);
}
