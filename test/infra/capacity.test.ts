/** The capacity of a Redis: the bytes of a record as a real Redis counts them, and what follows from settings. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { capacityOf, capacityText, RECORD } from '../../infra/doctor/capacity.ts';
import { redisKindsTable, redisKindText } from '../../infra/doctor/kinds.ts';
import type { Settings } from '../../infra/template/config.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { openRedis } from '../../lib/redis/cluster/connection.ts';
import { ResultStore } from '../../lib/redis/results.ts';
import { serializeResult } from '../../lib/results/fields.ts';
import { startRedis } from '../../local/redis/start.ts';
import { temporaryFolder } from '../support/runner.ts';

const settingsOf = (redis: Settings['files']['redis'], own: object = {}) =>
  ({ arch: 'x86_64', redisNodeType: 'cache.t4g.micro', redisMaxGB: 1, files: { redis }, ...own }) as Settings;

test('a record takes as much of Redis as doctor counts', async (t) => {
  const server = await startRedis({ dataDir: await temporaryFolder(t), port: 0, log: () => undefined });
  t.after(() => server.close());
  if (server.kind === 'embedded') return t.skip('no redis-server on this machine');
  const connection = openRedis(server.url, { commandTimeoutMs: 10_000 });
  t.after(() => connection.close());
  const used = () =>
    connection.use(
      async (redis) => Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]),
      true,
    );
  const store = new ResultStore(connection, { job: 'serving_stream', ttlSeconds: 86_400, now: Date.now });
  const data = Float32Array.from({ length: 10 }, (_, i) => Math.sin(i));
  const outputs = [{ name: 'output', dtype: 'float32', shape: [10], data }] as const;
  const fields = serializeResult({ ok: true, outputs }, undefined);
  const save = (count: number) =>
    store.save(
      Array.from({ length: count }, () => ({
        uri: randomUUID(),
        fields,
        enqueue: { identity: randomUUID(), sentAt: Date.now(), replays: 0 },
      })),
      'v1',
    );
  await save(100);
  const before = await used();
  // A power of two: Redis doubles its table of keys at one.
  for (let i = 0; i < 64; i++) await save(128);
  const each = ((await used()) - before) / (64 * 128);
  const counted = RECORD.resultBytes + RECORD.newestBytes;
  assert.ok(each > counted / 1.2 && each < counted * 1.2, `${each} bytes, counted ${counted}`);
});

test('the Redis that was chosen and the time that results stay decide how many records a day fit', () => {
  const of = (redis: Settings['files']['redis'], own = {}, job = {}) =>
    capacityOf(settingsOf(redis, own), { ...DEFAULT_JOB, ...job });
  const { recordsPerDay, bytesPerDailyRecord } = of('node');
  // A result for a day, and for five days which enqueue was the last.
  assert.equal(bytesPerDailyRecord, 1_260 + 5 * 260);
  assert.equal(recordsPerDay, Math.floor((0.75 * 0.5 * 2 ** 30) / 2_560));
  assert.equal(of('node', { redisNodeType: 'cache.x9.huge' }).recordsPerDay, undefined);
  assert.equal(of('node', { redisNodeType: 'constructor' }).recordsPerDay, undefined);
  assert.equal(of('serverless', { redisMaxGB: 3 }).redisBytes, 3 * 2 ** 30);
  assert.equal(of('public', { redisMaxGB: 3 }).redisBytes, 0.9 * 3 * 2 ** 30);
  for (const redis of ['url', 'shared'] as const) assert.equal(of(redis).recordsPerDay, undefined);
  assert.equal(of('node', {}, { resultTtlSeconds: 7 * 86_400 }).bytesPerDailyRecord, 7 * (1_260 + 260));
});

test('doctor says for each kind of Redis what its functions reach and what an update may change', () => {
  assert.match(
    redisKindText('public'),
    /^redis=public: takes a VPC: no; its functions reach everything; .* an update may change both limits,/,
  );
  const rows = redisKindsTable(DEFAULT_JOB);
  assert.ok(rows.every(({ length }) => length === rows[0]?.length));
  // The same as capacityOf says for the settings of dev, in thousands.
  assert.ok(rows.some((row) => row[1]?.startsWith('157,000 records a day')));
});

test('doctor says when Redis is full and what reading costs', () => {
  assert.equal(
    capacityText(capacityOf(settingsOf('node'), DEFAULT_JOB)),
    [
      'full: at 157,286 records a day (2.6 kB for each daily record with an answer of 10 numbers, in 384 MiB)',
      'read: 1.20 dollars for a million results over HTTPS; waiting 1 s for each 9.53, 20 s 167.87',
    ].join('\n'),
  );
  assert.match(
    capacityText(capacityOf(settingsOf('url'), DEFAULT_JOB)),
    /^full: not known for this Redis; it needs 2\.6 kB for each daily record/,
  );
});
