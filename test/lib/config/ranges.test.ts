/** Both ends of every range that AWS sets, or that the documents promise. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvironment } from '../../../lib/config/environment.ts';
import {
  DEFAULT_JOB,
  hiddenSeconds,
  predictTimeoutSeconds,
  visibilityTimeoutSeconds,
} from '../../../lib/config/job.ts';
import { MOST_DELIVERIES } from '../../../lib/pipeline/dead-letters.ts';
import { parseConfig } from '../../support/config.ts';

const RANGES: readonly (readonly [path: string, min: number, max: number])[] = [
  ['batchSize', 1, 10_000],
  ['threadPerModel', 0, 64],
  ['modelRefreshSeconds', 1, 86_400],
  ['resultTtlSeconds', 1, 14 * 86_400],
  ['queue.batchSize', 1, 10_000],
  ['queue.windowSeconds', 0, 300],
  ['queue.maximumConcurrency', 2, 1_000],
  ['queue.maxReceiveCount', 1, 1_000],
  ['function.memoryMB', 128, 10_240],
  ['function.timeoutSeconds', 3, 900],
  ['http.tokensPerSecond', 1, 10_000],
  ['http.tokenAcquireTimeoutMs', 0, 28_000],
  ['http.timeoutMs', 1, 29_000],
];

function configWith(path: string, value: number): string {
  const [group, key] = path.split('.');
  // A batch of more than ten needs a window.
  const window = path === 'queue.batchSize' ? '\n  windowSeconds: 1' : '';
  return key === undefined ? `${group}: ${value}\n` : `${group}:\n  ${key}: ${value}${window}\n`;
}

for (const [path, min, max] of RANGES) {
  test(`${path} goes from ${min} to ${max}, in whole numbers`, () => {
    for (const value of [min, max]) parseConfig(configWith(path, value), 'config.yaml');
    for (const value of [min - 1, max + 1, min + 0.5]) {
      assert.throws(() => parseConfig(configWith(path, value), 'config.yaml'), /expected a whole number/);
    }
  });
}

test('the defaults are those of the documents', () => {
  const { batchSize, resultTtlSeconds, modelRefreshSeconds, queue } = DEFAULT_JOB;
  assert.deepEqual([batchSize, resultTtlSeconds, modelRefreshSeconds], [32, 86_400, 30]);
  const expected = { batchSize: 10, windowSeconds: 0, maximumConcurrency: 10, maxReceiveCount: 5 };
  assert.deepEqual(queue, { ...expected, retentionSeconds: 4 * 86_400, recordTtlSeconds: 0, highShare: 0 });
});

test('a message is hidden for six times what its function may take, and its window', () => {
  const job = parseConfig('function:\n  timeoutSeconds: 100\nqueue:\n  windowSeconds: 7\n', 'config.yaml');
  assert.equal(visibilityTimeoutSeconds(job), 607);
});

test('the deliveries after which SQS gives a message up take more than a day, with the shortest function too', () => {
  const shortest = parseConfig('function:\n  timeoutSeconds: 3\n', 'config.yaml');
  assert.equal(hiddenSeconds(shortest), 18);
  assert.ok(visibilityTimeoutSeconds(shortest) * MOST_DELIVERIES > 86_400);
});

test('the predict function ends before API Gateway gives up after 30 s', () => {
  const secondsOf = (text: string) => predictTimeoutSeconds(parseConfig(text, 'config.yaml'));
  assert.equal(secondsOf('function:\n  timeoutSeconds: 900\n'), 29);
  assert.equal(secondsOf('http:\n  timeoutMs: 1500\n'), 2);
});

test('a variable that is missing, or empty, fails with its name when it is asked for', () => {
  for (const variables of [{}, { CLUSTER_SERVING_BUCKET: '' }]) {
    const environment = readEnvironment(variables);
    const message = 'the environment variable CLUSTER_SERVING_BUCKET is not set';
    assert.throws(() => environment.bucket, { code: 'bad_config', message });
  }
});
