import assert from 'node:assert/strict';
import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Redis } from 'ioredis';
import { syncRegularly } from '../../embedded-redis/disk-sync.ts';
import { startRedis } from '../../local/redis/start.ts';
import { temporaryFolder } from '../support/runner.ts';
import { until } from '../support/until.ts';

/** A folder that is looked at all the time; `beats` counts the looks at a file that grows each time. */
async function watched(t: TestContext) {
  const dataDir = await temporaryFolder(t);
  await mkdir(join(dataDir, 'appendonlydir'));
  const seen: string[] = [];
  const told: string[] = [];
  let failing = false;
  const stop = syncRegularly({
    dataDir,
    everyMs: 1,
    log: (message) => told.push(message),
    datasync: async (file, path) => {
      if (failing) throw new Error('no disk');
      await file.datasync();
      seen.push(basename(path));
    },
  });
  t.after(stop);
  const write = (path: string, text: string) => appendFile(join(dataDir, path), text);
  /** Resolves when all that was written before has been looked at. */
  const looked = async () => {
    const before = seen.filter((name) => name === BEAT).length;
    await write(`appendonlydir/${BEAT}`, 'x');
    await until(() => seen.filter((name) => name === BEAT).length > before);
    await write(`appendonlydir/${BEAT}`, 'x');
    await until(() => seen.filter((name) => name === BEAT).length > before + 1);
  };
  return { dataDir, seen, told, write, looked, stop, fail: (yes: boolean) => (failing = yes) };
}

const BEAT = 'appendonly.aof.beat';

test('each file of the log is synced when it has grown, and not again until it grows', async (t) => {
  const { dataDir, seen, write, looked } = await watched(t);
  await writeFile(join(dataDir, 'dump.rdb'), 'not the log');
  await write('appendonlydir/appendonly.aof.1.incr.aof', 'a');
  await write('appendonly.aof', 'a');
  await looked();
  await looked();
  const others = () => seen.filter((name) => name !== BEAT).sort();
  assert.deepEqual(others(), ['appendonly.aof', 'appendonly.aof.1.incr.aof']);
  await write('appendonlydir/appendonly.aof.1.incr.aof', 'b');
  await looked();
  await rm(join(dataDir, 'appendonlydir', 'appendonly.aof.1.incr.aof'));
  await looked();
  assert.deepEqual(others(), ['appendonly.aof', 'appendonly.aof.1.incr.aof', 'appendonly.aof.1.incr.aof']);
});

test('a disk error is reported once, and the disk is synced when it works again', async (t) => {
  const { seen, told, write, looked, fail } = await watched(t);
  fail(true);
  await write('appendonly.aof', 'a');
  await until(() => told.length > 0);
  await write('appendonly.aof', 'b');
  fail(false);
  await looked();
  assert.equal(told.length, 1);
  assert.match(told[0] ?? '', /cannot sync the log in .*no disk/);
  assert.ok(seen.includes('appendonly.aof'));
});

test('the redis-server of the local stack writes before it answers, and leaves the disk to us', async (t) => {
  const redis = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => redis.close());
  if (redis.kind !== 'redis-server') return t.skip('no redis-server is installed');
  const client = new Redis(redis.url);
  t.after(() => client.disconnect());
  assert.deepEqual(await client.config('GET', 'appendfsync'), ['appendfsync', 'no']);
  assert.deepEqual(await client.config('GET', 'appendonly'), ['appendonly', 'yes']);
});

test('a folder of the log that cannot be listed is reported', async (t) => {
  const dataDir = await temporaryFolder(t);
  await writeFile(join(dataDir, 'appendonlydir'), 'no folder');
  const told: string[] = [];
  t.after(syncRegularly({ dataDir, everyMs: 1, log: (message) => told.push(message) }));
  await until(() => told.length > 0);
  assert.match(told[0] ?? '', /^cannot sync the log in .*ENOTDIR/);
});
