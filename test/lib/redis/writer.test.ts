/** A batch of results on its way to Redis: calls, round trips, and one count for each. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import { indexKey, metricsKey } from '../../../lib/contract/names.ts';
import { Timers } from '../../../lib/metrics/timers.ts';
import type { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultWriter } from '../../../lib/redis/result-writer.ts';
import type { Finished } from '../../../lib/results/store.ts';

type Reply = readonly number[];

interface Call {
  readonly trip: number;
  readonly records: number;
  readonly pairs: number;
  readonly metricsTtlMs: number;
  readonly ttlMs: number;
}

/** Those of save.lua. */
interface Options {
  readonly ttlMs: string;
  readonly metrics?: { readonly ttlMs: string; readonly pairs: readonly unknown[] };
  readonly records?: readonly unknown[];
}

/** A Redis that takes every script call, and answers it with `reply`. */
function world(reply: (call: Call) => Reply = ({ records }) => [records], isCluster = false) {
  const calls: Call[] = [];
  const nodes: (string | undefined)[] = [];
  let trips = 0;
  const saveResults = async (keys: number, ...values: (string | number)[]) => {
    const { ttlMs, metrics, records = [] } = JSON.parse(String(values[keys])) as Options;
    const call: Call = {
      trip: trips,
      records: records.length,
      pairs: metrics?.pairs.length ?? 0,
      metricsTtlMs: Number(metrics?.ttlMs),
      ttlMs: Number(ttlMs),
    };
    calls.push(call);
    return reply(call);
  };
  const connection = {
    isCluster,
    home: (job: string, uri: string) => (isCluster ? `{${uri}}${job}` : job),
    use: (work: (redis: unknown) => Promise<unknown>, _repeatable: boolean, key?: string) => {
      trips++;
      nodes.push(key);
      return work({ saveResults, listHomes: async () => [] });
    },
  };
  const options = { job: 'job', ttlSeconds: 60, now: () => 0 };
  return { calls, nodes, writer: new ResultWriter(connection as unknown as RedisConnection, options) };
}

const results = (count: number, bytes = 1, exact = ''): Finished[] =>
  Array.from({ length: count }, (_, i) => ({
    uri: `r${i}`,
    fields: { status: 'succeeded', value: 'x'.repeat(bytes), error: '', outputs: '', exact },
  }));

function measured(): Timers {
  const timers = new Timers();
  timers.record('zoo.serving.redis.put', 5);
  return timers;
}

test('a call has a thousand records at most, calls share a round trip, and only the first brings the metrics', async () => {
  const { calls, writer } = world();
  assert.equal(await writer.save(results(2_001), 'v', measured()), 2_001);
  assert.deepEqual(
    calls.map(({ trip, records }) => [trip, records]),
    [
      [1, 1_000],
      [1, 1_000],
      [1, 1],
    ],
  );
  assert.deepEqual(
    calls.map(({ pairs }) => pairs > 0),
    [true, false, false],
  );
  assert.equal(calls[0]?.metricsTtlMs, 7 * 86_400_000);
  assert.equal(calls[0]?.ttlMs, 60_000);
});

test('a round trip has 4 MiB at most, but one result at least, and metrics leave once', async () => {
  const { calls, writer } = world();
  const MiB = 1_048_576;
  await writer.save([...results(1, 5 * MiB), ...results(3, 2 * MiB)], 'v', measured());
  assert.deepEqual(
    calls.map(({ trip, records, pairs }) => [trip, records, pairs > 0]),
    [
      [1, 1, true],
      [2, 2, false],
      [3, 1, false],
    ],
  );
});

test('the exact numbers of a result count among the bytes of a round trip', async () => {
  const { calls, writer } = world();
  const MiB = 1_048_576;
  await writer.save(results(3, 1, '1'.repeat(1.5 * MiB)), 'v', undefined);
  assert.deepEqual(
    calls.map(({ trip, records }) => [trip, records]),
    [
      [1, 2],
      [2, 1],
    ],
  );
});

test('metrics that were delivered are not delivered again when a later round trip fails, others are', async () => {
  const MiB = 1_048_576;
  const failAt = async (trip: number) => {
    const timers = measured();
    const { writer } = world((call) => {
      if (call.trip === trip) throw new ServingError('results_unavailable', 'away');
      return [call.records];
    });
    await assert.rejects(writer.save(results(2, 3 * MiB), 'v', timers), { code: 'results_unavailable' });
    return timers.take().size;
  };
  assert.deepEqual([await failAt(2), await failAt(1)], [0, 1]);
});

test('a record whose key holds something else is named by its uri, in any call', async () => {
  const { writer } = world(({ records }) => (records === 1_000 ? [999, 7] : [0, 0]));
  const blocked: string[] = [];
  await writer.save(results(1_001), 'v', undefined, (uri) => void blocked.push(uri));
  assert.deepEqual(blocked, ['r7', 'r1000']);
});

test('in cluster mode results are saved at the nodes of their slots, and metrics and the list of slots at those of theirs', async () => {
  const { nodes, writer } = world(undefined, true);
  await writer.save(results(2), 'v', measured());
  assert.deepEqual(nodes.map(String).sort(), [indexKey('job'), metricsKey('job'), '{r0}job', '{r1}job']);
});
