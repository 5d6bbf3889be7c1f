/**
 * Kills the redis-server of the whole local stack while records are in flight: each must still get its result. A
 * record whose result could not be written is redelivered when its visibility ends, after six times its function's
 * time limit.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { portHolder } from '../../local/machine/ports.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { quietLog } from '../support/faults/quiet.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const EACH = 150;

test('a redis-server that is killed under the whole stack loses no record, and waiting clients get an error', async (t) => {
  quietLog(t);
  const stack = await testStack(t, { functionSeconds: 1 });
  if (stack.redis.kind === 'embedded') return t.skip('needs redis-server on the PATH');
  const options = clientOptions(stack);
  const [input, output] = [new InputQueue(options.input), new OutputQueue(options.output)];
  t.after(() => Promise.all([input.close(), output.close()]));
  const port = Number(new URL(stack.redisUrl).port);
  const image = { path: join(SAMPLE, 'images/digit-7.png') };
  const uris = (from: number) => Array.from({ length: EACH }, (_, i) => `r-${from + i}`);
  const enqueue = (names: readonly string[]) =>
    Promise.all(names.map((uri) => input.enqueue(uri, { image })));

  const waiting = fetch(`${stack.url}/predictions/last`, { headers: { prefer: 'wait=20' } });
  await enqueue(uris(0));
  await until(async () => (await output.query('r-0')) !== undefined);
  const killed = await portHolder(port);
  assert.match(killed?.command ?? '', /redis-server/);
  process.kill(killed?.pid as number, 'SIGKILL');
  await enqueue(uris(EACH));
  await until(async () => (await fetch(`${stack.url}/ready`)).status === 200);
  assert.notEqual((await portHolder(port))?.pid, killed?.pid);
  await enqueue(['last']);
  assert.equal((await waiting).status, 200);
  for (const uri of [...uris(0), ...uris(EACH)]) {
    const result = await output.wait(uri, { timeoutMs: 60_000 });
    assert.equal(result.outputs.length, 1, uri);
  }
});
