/** What a store of results promises, and the tests of lib/redis that are not about another server, once more against a Redis Cluster. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnvironment } from '../../support/environment.ts';
import { startRedisCluster } from '../../support/redis-cluster.ts';
import { ROOT } from '../../support/start.ts';

const CONFORMANCE = 'test/lib/results/redis.test.ts';
const SUITES = ['results', 'run-counts', 'leases', 'record-states', 'replace-result'];

const EMBEDDED = 'the embedded Redis';
/**
 * What is about another server, one server's memory, the bytes of a connection without TLS, the one index of a job, or the order
 * of results that are saved in the same ms.
 */
const ELSEWHERE = [
  EMBEDDED,
  'a full Redis',
  'a drain takes what is larger than a page',
  'who breaks off a drain',
  'what a drain puts back',
  'the index lists a cancellation',
  'cannot be put back',
  'can still be put back',
  'g[eo]ts? lost',
  'whatever became of the answer',
  'a result that is put back stays away',
  'answers that do not come',
  'whose answer was lost',
  'announcements of one tick',
  'every key that is written has a time to live',
];

test('results, leases, states, replays and limits are in a cluster what they are in one Redis', async (t) => {
  const cluster = await startRedisCluster();
  if (!cluster) return t.skip('needs an installed redis-server and openssl');
  t.after(() => cluster.close());
  const run = async (files: readonly string[], elsewhere: readonly string[]): Promise<number> => {
    const options = [
      '--test',
      '--test-concurrency=1',
      '--test-reporter=tap',
      `--test-skip-pattern=${elsewhere.join('|')}`,
    ];
    const environment = { TEST_REDIS_CLUSTER: cluster.url, NODE_EXTRA_CA_CERTS: cluster.certificate };
    const { stdout } = await promisify(execFile)(process.execPath, [...options, ...files], {
      cwd: ROOT,
      env: childEnvironment(environment),
      maxBuffer: 64 * 1024 * 1024,
    }).catch((error: { stdout: string }) => error);
    const failed = stdout.split('\n').filter((line) => /^ *not ok /.test(line));
    assert.deepEqual(failed, [], stdout);
    const [, passed] = /^# pass (\d+)$/m.exec(stdout) ?? [];
    return Number(passed);
  };
  const promised = await run([CONFORMANCE], [EMBEDDED]);
  assert.ok(promised >= 95, `${promised}`);
  const ofRedis = await run(
    SUITES.map((name) => `test/lib/redis/${name}.test.ts`),
    ELSEWHERE,
  );
  assert.ok(ofRedis >= 10, `${ofRedis}`);
});
