/** The bytes that a plan counts for the numbers of an answer, against a real Redis. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { NUMBER_BYTES } from '../../../cli/plan/limits.ts';
import { RECORD } from '../../../infra/doctor/capacity.ts';
import { openRedis } from '../../../lib/redis/cluster/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { startRedis } from '../../../local/redis/start.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('an answer of a thousand numbers takes as much of Redis as a plan counts', async (t) => {
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
  const data = Float32Array.from({ length: 1_000 }, (_, i) => Math.sin(i));
  const outputs = [{ name: 'output', dtype: 'float32', shape: [1_000], data }] as const;
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
  for (let i = 0; i < 32; i++) await save(64);
  const each = ((await used()) - before) / (32 * 64);
  const counted = RECORD.resultBytes + RECORD.newestBytes + (1_000 - 10) * NUMBER_BYTES;
  assert.ok(each > counted / 1.2 && each < counted * 1.2, `${each} bytes, counted ${counted}`);
});
