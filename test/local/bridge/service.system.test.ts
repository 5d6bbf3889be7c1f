/** The local service and the command, with what an old client writes and reads. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Redis } from 'ioredis';
import { arrowMessage } from '../../../bench/messages.ts';
import { OutputQueue, type Result } from '../../../sdk/index.ts';
import { count as messages } from '../../support/faults/events.ts';
import { redisUrl } from '../../support/redis.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { clientOptions, SAMPLE, testStack } from '../../support/stack.ts';
import { ROOT } from '../../support/start.ts';
import { until } from '../../support/until.ts';

const KEY = 'cluster-serving_serving_stream:';

/** The field `data` of a record with one image, in the form of the old Python client. */
async function imageData(digit: number): Promise<string> {
  const bytes = await readFile(join(SAMPLE, `images/digit-${digit}.png`));
  const inputs = new Map([['image', { kind: 'image', bytes } as const]]);
  return (JSON.parse(arrowMessage('', inputs)) as { data: string }).data;
}

function client(t: TestContext, url: string): Redis {
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  return redis;
}

for (const preferEmbeddedRedis of [false, true]) {
  const server = preferEmbeddedRedis ? 'the embedded Redis' : 'its redis-server';
  test(`the service answers records that an old client adds to ${server}`, async (t) => {
    const stack = await testStack(t, { preferEmbeddedRedis });
    const redis = client(t, stack.redisUrl);
    const output = new OutputQueue(clientOptions(stack).output);
    t.after(() => output.close());
    await redis.xadd('serving_stream', '*', 'uri', 'a three', 'data', await imageData(3));
    await redis.xadd('serving_stream', '*', 'uri', 'nonsense', 'data', 'bm9uc2Vuc2U=');
    const { outputs } = await output.wait('a three', { timeoutMs: 60_000 });
    const values = [...(outputs[0]?.data as Float32Array)];
    assert.equal(values.indexOf(Math.max(...values)), 3);
    assert.match((await redis.hget(`${KEY}a three`, 'value')) as string, /^[A-Za-z0-9+/]+=*$/);
    await until(async () => (await redis.hget(`${KEY}nonsense`, 'value')) === 'NaN');
    await until(async () => (await redis.xlen('serving_stream')) === 0);
  });
}

test('the service warns at its start of records in a stream that no job reads', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = await testStack(t, { dataDir });
  const redis = new Redis(first.redisUrl);
  await redis.xadd('image_stream', '*', 'uri', 'a', 'image', 'x');
  redis.disconnect();
  await first.close();
  const warned: string[] = [];
  await testStack(t, { dataDir, warn: (message) => warned.push(message) });
  assert.match(
    warned.join('\n'),
    /nobody reads the stream "image_stream" of Redis, which has 1 record:.*bridge --stream image_stream/,
  );
  assert.doesNotMatch(warned.join('\n'), /serving_stream/);
});

test('records and results survive kills of the command: each is answered right and once, none is left', async (t) => {
  const stack = await testStack(t);
  const source = client(t, await redisUrl(t));
  const url = `redis://127.0.0.1:${source.options.port}`;
  const { queueUrl } = clientOptions(stack).input;
  const start = () => {
    const args = ['bridge', '--redis', url, '--queue-url', queueUrl, '--claim-seconds', '1'];
    const child = spawn(process.execPath, [join(ROOT, 'cli/bin/cluster-serving.mjs'), ...args], {
      env: { ...process.env, ...stack.aws.environment },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    return child;
  };
  const digits = await Promise.all(Array.from({ length: 10 }, (_, digit) => imageData(digit)));
  const count = 300;
  const add = async (from: number, to: number) => {
    for (let i = from; i < to; i++)
      await source.xadd('serving_stream', '*', 'uri', `r${i}`, 'data', digits[i % 10] as string);
  };
  const left = () => source.xlen('serving_stream');
  let bridge: ChildProcess | undefined;
  for (let round = 0; round < 3; round++) {
    await add((round * count) / 3, ((round + 1) * count) / 3);
    const before = await left();
    bridge = start();
    await until(async () => (await left()) < before);
    bridge.kill('SIGKILL');
    await once(bridge, 'exit');
  }
  bridge = start();
  // Before that it does not listen to signals yet.
  const [note] = await once(bridge.stderr as NodeJS.EventEmitter, 'data');
  assert.match(String(note), /reading the stream serving_stream/);
  await until(async () => (await left()) === 0);
  const redis = client(t, stack.redisUrl);
  await until(async () => (await redis.keys(`${KEY}*`)).length === count);
  bridge.kill('SIGTERM');
  const [code] = await once(bridge, 'exit');
  assert.equal(code, 0);
  const output = new OutputQueue(clientOptions(stack).output);
  t.after(() => output.close());
  const right = [...(await output.dequeue())].filter(([uri, found]) => {
    const values = [...((found as Result).outputs[0]?.data as Float32Array)];
    return values.indexOf(Math.max(...values)) === Number(uri.slice(1)) % 10;
  });
  assert.equal(right.length, count);
  // What two bridges sent has one outcome: nothing comes after all of them were taken.
  await until(async () => (await messages({ sqs: stack.aws.sqs, queueUrl })) === 0);
  assert.equal((await output.dequeue()).size, 0);
});
