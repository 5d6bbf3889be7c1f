/** F22: environments that are frozen right after each answer, while their connections are reset. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { publishModel } from '../../../../lib/registry/publish.ts';
import { rollBack } from '../../../../lib/registry/versions.ts';
import { addModel, modelFolder, STEP } from '../../../local/swap/models.ts';
import { pick, type Random, seeded, whole } from '../../../support/faults/seeds.ts';
import { startThrottle } from '../../../support/faults/throttle.ts';
import type { Bundles } from '../../../support/faults/worker.ts';
import type { LambdaEnvironment } from './environment.ts';
import { largeModel, MB } from './killed-downloads.ts';
import { batchEvent, deliver, LOCATION, openScene, predictX, xMessage } from './scene.ts';

export const SERVED = ['predict', 'batch'] as const;
const REFRESH_MS = 1_000;
const REFRESHES = { modelRefreshSeconds: REFRESH_MS / 1000 };

type Scene = Awaited<ReturnType<typeof openScene>>;

/** Calls a function with x, and freezes it at its answer. @returns y - x: the model's number */
function asking(scene: Scene, name: (typeof SERVED)[number], environment: LambdaEnvironment) {
  let calls = 0;
  const ask = async (timeoutMs: number | undefined) => {
    const x = ++calls;
    if (name === 'predict') {
      const { statusCode, body } = await predictX(environment, x, timeoutMs);
      assert.equal(statusCode, 200, body);
      return Number(/-?\d+\.\d+/.exec(body)?.[0]) - x;
    }
    const uri = `frozen-${x}`;
    assert.deepEqual(await deliver(environment, batchEvent({ [uri]: xMessage(uri, x) }), timeoutMs), []);
    return Number(await scene.outcomeOf(uri)) - x;
  };
  return async (timeoutMs?: number) => {
    environment.thaw();
    return ask(timeoutMs).finally(() => environment.freeze());
  };
}

/** What happens to the connections of an environment in its sleep. */
function disturb(random: Random, { s3, redis }: Scene): void {
  const resets = { s3: () => s3.resetAll(), redis: () => redis.resetAll(), none: () => undefined };
  for (let i = whole(random, 0, 2); i >= 0; i--) resets[pick(random, ['s3', 'redis', 'none'] as const)]();
}

/** Pushed versions and rollbacks, each served by the first call after it is due. */
export async function swapsWhileFrozen(
  t: TestContext,
  bundles: Bundles,
  name: (typeof SERVED)[number],
  seed: number,
): Promise<void> {
  const random = seeded(seed);
  const scene = await openScene(t, bundles, REFRESHES);
  const versions: string[] = [];
  const push = async (number: number) => {
    const folder = await modelFolder(t, addModel(number));
    versions[number] = (await publishModel(scene.bucket, LOCATION, folder)).version;
  };
  await push(1);
  const environment = scene.start(name);
  const call = asking(scene, name, environment);
  assert.equal(await call(), STEP);
  let seen = 0;
  const wasLate = async () => {
    // The answer and the log come by two pipes, and a check is reported once in this time.
    await pause(REFRESH_MS);
    const lines = environment.output().slice(seen);
    seen += lines.length;
    return lines.includes('no answer of S3 within 300 ms');
  };
  let serving = 1;
  for (let round = 2; round < 8; round++) {
    if (random() < 0.5) await push((serving = round));
    else if (serving > 1) await rollBack(scene.bucket, LOCATION, versions[(serving = 1)]);
    await pause(whole(random, REFRESH_MS, 2 * REFRESH_MS));
    disturb(random, scene);
    let served = await call();
    // A machine with much else to do may need longer than the check has, which stays due then.
    for (let late = 0; late < 3 && served !== serving * STEP && (await wasLate()); late++)
      served = await call();
    assert.equal(served, serving * STEP, `round ${round}`);
  }
}

export interface LargeOptions {
  readonly mb: number;
  readonly mbPerSecond: number;
  readonly timeoutMs: number;
}

/** What INIT has no time for is continued by the first request, however long the environment was frozen in between. */
export async function slowStart(
  t: TestContext,
  bundles: Bundles,
  { mb, mbPerSecond }: Pick<LargeOptions, 'mb' | 'mbPerSecond'>,
): Promise<void> {
  const scene = await openScene(t, bundles);
  const line = await startThrottle(t, scene.s3.url, (mbPerSecond * MB) / 1000);
  await publishModel(scene.bucket, LOCATION, await modelFolder(t, largeModel(1, mb * MB)));
  const environment = scene.start('predict', { variables: { AWS_ENDPOINT_URL: line.url } });
  await environment.ready;
  environment.freeze();
  const inInit = line.bytes;
  assert.ok(inInit > MB && inInit < mb * MB, `${inInit} bytes came in INIT`);
  await pause(REFRESH_MS);
  line.resetAll();
  environment.thaw();
  assert.match((await predictX(environment, 1)).body, /2\.0/);
  assert.ok(line.bytes <= (mb + 2) * MB, `${line.bytes} bytes were read`);
}

/** A model whose load takes longer than a call may wait arrives over several, each of which is answered. */
export async function largeWhileFrozen(
  t: TestContext,
  bundles: Bundles,
  name: (typeof SERVED)[number],
  seed: number,
  { mb, mbPerSecond, timeoutMs }: LargeOptions,
): Promise<void> {
  const random = seeded(seed);
  const scene = await openScene(t, bundles, REFRESHES);
  const line = await startThrottle(t, scene.s3.url, (mbPerSecond * MB) / 1000);
  await publishModel(scene.bucket, LOCATION, await modelFolder(t, largeModel(1, 4_096)));
  const environment = scene.start(name, { variables: { AWS_ENDPOINT_URL: line.url } });
  const call = asking(scene, name, environment);
  assert.equal(await call(), 1);
  await publishModel(scene.bucket, LOCATION, await modelFolder(t, largeModel(2, mb * MB)));
  await pause(REFRESH_MS);
  const before = line.bytes;
  let calls = 0;
  let served: number;
  do {
    served = await call(timeoutMs);
    calls++;
    assert.ok(served === 1 || served === 2);
    assert.ok(calls <= 50, `${(line.bytes - before) / MB} MB came in ${calls} calls`);
    line.resetAll();
    await pause(whole(random, 0, 300));
  } while (served === 1);
  const came = (line.bytes - before) / MB;
  t.diagnostic(`${mb} MB arrived in ${calls} calls, which read ${came.toFixed(1)} MB`);
  assert.ok(calls >= 2);
  // What lay in buffers when a read was stopped comes twice.
  assert.ok(came <= 1.5 * mb + 8, `${came} MB were read`);
}
