/**
 * F25: the clock of a single machine is set back by an hour and forward by a day, while the service runs and between two
 * starts. The last enqueue of each uri wins, each enqueue has its outcome, and nothing waits for the clock to come back.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Redis } from 'ioredis';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { useAws } from '../support/environment.ts';
import { lineModel, lineOf } from '../support/faults/model.ts';
import { pick, type Random, seeded, shuffled } from '../support/faults/seeds.ts';
import { freePort } from '../support/free-port.ts';
import { temporaryFolder } from '../support/runner.ts';
import { type Addresses, ROOT, type Started, startWith } from '../support/start.ts';

const HOUR_MS = 3_600_000;
const URIS = 5;
/** Far below an hour, and far above what a loaded machine takes. */
const PATIENCE_MS = 60_000;
const CONFIG = `modelPath: model
queue:
  recordTtlSeconds: 1800
http:
  tokenBucketEnabled: true
  tokensPerSecond: 1000
`;

const SET_CLOCK = join(ROOT, 'test/support/set-clock.mjs');

/** A service whose clock, and that of this process, is set by `set`. */
async function service(t: TestContext, isEmbedded: boolean) {
  const folder = await temporaryFolder(t);
  const clock = join(folder, 'clock');
  const set = async (shiftMs: number) => {
    await writeFile(`${clock}.new`, String(shiftMs));
    await rename(`${clock}.new`, clock);
  };
  await set(0);
  process.env['SET_CLOCK_FILE'] = clock;
  await import(pathToFileURL(SET_CLOCK).href);
  await mkdir(join(folder, 'model'));
  await writeFile(join(folder, 'model/model.onnx'), lineModel());
  await writeFile(join(folder, 'config.yaml'), CONFIG);
  const ports = [await freePort(), await freePort(), await freePort()];
  const [port, aws, redis] = ports;
  const options = { config: join(folder, 'config.yaml'), 'data-dir': join(folder, 'data'), port, 'aws-port': aws, 'redis-port': redis }; // biome-ignore format: one line
  const args = ['--json', ...Object.entries(options).map(([name, value]) => `--${name}=${value}`)];
  if (isEmbedded) args.push('--embedded-redis');
  const variables = { SET_CLOCK_FILE: clock, NODE_OPTIONS: `--import=${pathToFileURL(SET_CLOCK).href}` };
  let started: Started | undefined;
  const start = async (): Promise<Addresses> => {
    started = startWith(t, variables, ...args);
    await started.line(/"ready"/);
    return JSON.parse(await started.line(/"queueUrl"/)) as Addresses;
  };
  const end = async () => {
    started?.child.kill('SIGKILL');
    await started?.exited;
  };
  return { set, start, end };
}

const inputsOf = (x: number) => ({ x: [x], k: { data: [0], dtype: 'int64' as const, shape: [1] } });

/** Ways to enqueue a record; each gives its identity. */
const WAYS = {
  https: async ({ http }: Addresses, uri: string, x: number) => {
    const input = new InputQueue({ frontendUrl: http });
    return (await input.enqueue(uri, inputsOf(x))).identity;
  },
  sqs: async ({ queueUrl, environment }: Addresses, uri: string, x: number) => {
    useAws(environment);
    const input = new InputQueue({ queueUrl });
    const identity = randomUUID();
    const enqueue = () => input.enqueue(uri, inputsOf(x), { identity });
    // A request that is under way while the clock is set has the signature of another time.
    await enqueue().catch(enqueue);
    await input.close();
    return identity;
  },
  stream: async ({ redisUrl }: Addresses, uri: string, x: number) => {
    const redis = new Redis(redisUrl);
    const data = JSON.stringify({ instances: [{ x: [x], k: [0] }] });
    const id = (await redis.xadd('serving_stream', '*', 'uri', uri, 'data', data, 'serde', 'stream')) ?? '';
    redis.disconnect();
    const [ms = '', number = ''] = id.split('-');
    return `stream-${ms}-${number.padStart(6, '0')}`;
  },
} as const;

const KINDS = Object.keys(WAYS) as (keyof typeof WAYS)[];

for (const [seed, isEmbedded] of [
  [1, true],
  [2, false],
  [3, true],
] as const) {
  const server = isEmbedded ? 'the embedded Redis' : 'redis-server';
  test(`F25: the clock is set back by an hour and forward by a day, with ${server} (seed ${seed})`, async (t) => {
    const random = seeded(seed);
    const { set, start, end } = await service(t, isEmbedded);
    let where = await start();
    let x = 0;
    const round = async (shiftMs: number) => {
      await set(shiftMs);
      await Promise.all(Array.from({ length: URIS }, (_, i) => life(random, where, `uri-${i}`, () => ++x)));
    };
    await round(0);
    for (const shiftMs of shuffled(random, [-HOUR_MS, 24 * HOUR_MS, -2 * HOUR_MS, 0])) await round(shiftMs);
    // The last place in the order outlives the service.
    await set(24 * HOUR_MS);
    await round(24 * HOUR_MS);
    await end();
    await set(-HOUR_MS);
    where = await start();
    await round(-HOUR_MS);
  });
}

/** Enqueues a uri a few times, one after the other, by different ways. Each has its outcome, and the last one counts. */
async function life(random: Random, where: Addresses, uri: string, next: () => number): Promise<void> {
  const output = new OutputQueue({ url: where.http });
  const sent: { identity: string; x: number }[] = [];
  if (pick(random, [true, false])) {
    // Too late, or in time: what is enqueued next is not meant.
    const answer = await fetch(`${where.http}/cancel?uri=${uri}`, { method: 'POST' });
    assert.ok([200, 409].includes(answer.status), await answer.text());
  }
  const way = pick(random, KINDS);
  for (let i = 0; i < 3; i++) {
    const x = next();
    sent.push({ identity: await WAYS[way](where, uri, x), x });
    if (pick(random, [true, false])) await seen(output, uri, sent.at(-1) as { identity: string; x: number });
  }
  const last = sent.at(-1) as { identity: string; x: number };
  await seen(output, uri, last);
  const { outputs } = await output.wait(uri, { timeoutMs: PATIENCE_MS });
  assert.equal(outputs[0]?.data[0], lineOf(last.x), `${uri}: the last of ${JSON.stringify(sent)} by ${way}`);
  await output.close();
}

async function seen(output: OutputQueue, uri: string, { identity, x }: { identity: string; x: number }) {
  const { outputs } = await output.wait(uri, { identity, timeoutMs: PATIENCE_MS });
  assert.equal(outputs[0]?.data[0], lineOf(x), `${uri}: ${identity}`);
}
