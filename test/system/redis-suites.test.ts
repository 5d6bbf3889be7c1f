/** The tests of lib/redis that say what results, leases, states and limits are, once more against a Redis Cluster. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnvironment } from '../support/environment.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { ROOT } from '../support/start.ts';

const SUITES = ['results', 'run-counts', 'leases', 'record-states', 'replace-result', 'rate-limiter'];

/**
 * What is about another server, one server's memory, the bytes of a connection without TLS, the one index of a job, or the order
 * of results that are saved in the same ms.
 */
const ELSEWHERE = [
  'the embedded Redis',
  'a full Redis',
  'a page keeps to its bytes',
  'a drain takes what is larger than a page',
  'who breaks off a drain',
  'cannot be put back',
  'can still be put back',
  'g[eo]ts? lost',
  'whatever became of the answer',
  'a result that is put back stays away',
  'whose answer was lost',
  'announcements of one tick',
  'every key that is written has a time to live',
];

test('results, leases, states, replays and limits are in a cluster what they are in one Redis', async (t) => {
  const cluster = await startRedisCluster();
  if (!cluster) return t.skip('needs an installed redis-server and openssl');
  t.after(() => cluster.close());
  const environment = { TEST_REDIS_CLUSTER: cluster.url, NODE_EXTRA_CA_CERTS: cluster.certificate };
  const options = [
    '--test',
    '--test-concurrency=1',
    '--test-reporter=tap',
    `--test-skip-pattern=${ELSEWHERE.join('|')}`,
  ];
  const files = SUITES.map((name) => `test/lib/redis/${name}.test.ts`);
  const run = promisify(execFile)(process.execPath, [...options, ...files], {
    cwd: ROOT,
    env: childEnvironment(environment),
    maxBuffer: 64 * 1024 * 1024,
  });
  const { stdout } = await run.catch((error: { stdout: string }) => error);
  const failed = stdout.split('\n').filter((line) => /^ *not ok /.test(line));
  assert.deepEqual(failed, [], stdout);
  const [, passed] = /^# pass (\d+)$/m.exec(stdout) ?? [];
  assert.ok(Number(passed) >= 50, stdout);
});
