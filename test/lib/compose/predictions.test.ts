/** The bundle of /predictions is deployed where there is a queue and where there is Redis, and asks for neither in vain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composePredictions } from '../../../lib/compose/predictions.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';

const QUEUE = { CLUSTER_SERVING_QUEUE_URL: 'http://127.0.0.1:9/000000000000/queue', AWS_REGION: 'local' };
const REDIS = { CLUSTER_SERVING_REDIS_URL: 'redis://127.0.0.1:9' };
const missing = (name: string) => ({
  code: 'bad_config',
  message: `the environment variable ${name} is not set`,
});

test('with a queue alone it sends, and says which variable a result would need', async () => {
  const deps = await composePredictions(new Scope(readEnvironment(QUEUE)));
  assert.equal(typeof deps.queue().send, 'function');
  for (const needed of ['results', 'states'] as const)
    assert.throws(() => deps[needed](), missing('CLUSTER_SERVING_REDIS_URL'));
  assert.equal(typeof deps.observers.flush, 'undefined', 'without Redis there are no timers to deliver');
});

test('with Redis alone it has results, the same ones every time, and says which variable a record would need', async () => {
  const deps = await composePredictions(new Scope(readEnvironment(REDIS)));
  assert.equal(deps.results(), deps.results());
  assert.equal(deps.states(), deps.states());
  assert.equal(typeof deps.observers.flush, 'function');
  assert.throws(() => deps.queue(), missing('CLUSTER_SERVING_QUEUE_URL'));
  assert.throws(() => deps.payloads(), missing('CLUSTER_SERVING_QUEUE_URL'));
});
