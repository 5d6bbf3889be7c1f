import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type LocalRedis, startRedis } from '../../../local/redis/start.ts';
import { FAULTS, OPERATIONS, redisFault } from './scenarios/faults.ts';

describe('F6: a fault of Redis is an error of ours, and on the same connection it works afterwards', () => {
  let dataDir: string;
  let redis: LocalRedis;
  before(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'cs-test-'));
    redis = await startRedis({ dataDir, port: 0, log: () => undefined });
  });
  after(async () => {
    await redis?.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  for (const operation of OPERATIONS) {
    for (const fault of FAULTS) {
      test(`${operation.name}, when ${fault.name}`, (t) => redisFault(t, redis.url, operation, fault));
    }
  }
});
