/**
 * Kills the redis-server of the local stack: it must run again on its port and data, or report what to do. A process
 * that is just being started must not outlive the close.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { portHolder } from '../../local/machine/ports.ts';
import { type LocalRedisOptions, startRedis } from '../../local/redis/start.ts';
import { temporaryFolder } from '../support/runner.ts';
import { until } from '../support/until.ts';

const skip = spawnSync('redis-server', ['--version']).status === 0 ? false : 'needs redis-server on the PATH';

async function keptRedis(t: TestContext, options: Partial<LocalRedisOptions> = {}) {
  const dataDir = await temporaryFolder(t);
  const lines: string[] = [];
  const redis = await startRedis({ dataDir, port: 0, log: (line) => lines.push(line), ...options });
  t.after(() => redis.close());
  const ask = async (work: (client: Redis) => Promise<string | null>): Promise<string | null> => {
    const client = new Redis(redis.url, { lazyConnect: true, retryStrategy: () => null });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return await work(client);
    } catch (error) {
      return `no answer: ${String(error)}`;
    } finally {
      client.disconnect();
    }
  };
  return { redis, lines, ask };
}

test('a redis-server that is killed runs again on the same port and data, with a line for each', {
  skip,
}, async (t) => {
  const { redis, lines, ask } = await keptRedis(t);
  for (const value of ['one', 'two']) {
    const pid = redis.pid as number;
    assert.equal(await ask((client) => client.set('k', value)), 'OK');
    process.kill(pid, 'SIGKILL');
    await until(async () => (await ask((client) => client.get('k'))) === value);
    await until(() => redis.pid !== pid);
    assert.match(
      lines.join('\n'),
      new RegExp(
        `redis-server \\(pid ${pid}\\) ended by itself: SIGKILL\\. It is started again in \\d+ ms\\.\n` +
          `redis-server runs again \\(pid ${redis.pid}\\)\\.$`,
      ),
    );
  }
  assert.equal(lines.length, 4);
});

test('what dies again and again is not started forever: pauses grow, and the last line says what to do', {
  skip,
}, async (t) => {
  const folder = await temporaryFolder(t);
  const serverCommand = join(folder, 'dies-later');
  const real = execFileSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' }).trim();
  // Runs once, and never again.
  await writeFile(
    serverCommand,
    `#!/bin/sh\n[ "$1" = --version ] && exit 0\n[ -e "${folder}/ran" ] && echo "no memory left" && exit 1\n` +
      `touch "${folder}/ran"\nexec "${real}" "$@"\n`,
    { mode: 0o755 },
  );
  const { redis, lines } = await keptRedis(t, { serverCommand, restart: { pauseMs: 5, attempts: 3 } });
  process.kill(redis.pid as number, 'SIGKILL');
  await until(() => lines.some((line) => line.includes('not started again')));
  assert.deepEqual(
    lines.map((line) => /in (\d+) ms\.$/.exec(line)?.[1]),
    ['5', '10', '20', undefined],
  );
  assert.match(lines[1] as string, /It said: no memory left/);
  assert.match(
    lines[3] as string,
    /ended 4 times in a row and is not started again: see that there is memory .* then run `cluster-serving restart`\.$/,
  );
});

test('a close at any moment of a start leaves no process behind', { skip }, async (t) => {
  for (const waitMs of [0, 1, 3, 6, 10, 15, 25, 40]) {
    const { redis, ask } = await keptRedis(t, { restart: { pauseMs: 1 } });
    assert.equal(await ask((client) => client.ping()), 'PONG');
    process.kill(redis.pid as number, 'SIGKILL');
    await delay(waitMs);
    await redis.close();
    assert.equal(await portHolder(Number(new URL(redis.url).port)), undefined, `closed after ${waitMs} ms`);
  }
});
