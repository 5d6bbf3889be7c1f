/** Which model and which version answers a request that names one, or none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Model } from '../../../lib/contract/values.ts';
import { modelFor, modelNamed } from '../../../lib/http/side.ts';

const use: Model['use'] = () => assert.fail();
const canary: Model = { version: 'b', use };
const model: Model = { version: 'a', use, canary: { takes: (key) => key === 'taken', model: canary } };
const requestId = () => 'other';

test('a request that names a version gets it, whatever its key', () => {
  const headers = { 'canary-key': 'taken' };
  assert.equal(modelFor(model, { headers, version: 'a', requestId }), model);
  assert.equal(modelFor(model, { headers: {}, version: 'b', requestId }), canary);
  assert.equal(modelFor(model, { headers, version: undefined, requestId }), canary);
});

test('without a canary nothing is asked of a request', () => {
  const alone: Model = { version: 'a', use };
  assert.equal(modelFor(alone, { headers: {}, version: 'b', requestId: () => assert.fail() }), alone);
});

test('a key that is not one is refused, also where it would decide nothing', () => {
  const alone: Model = { version: 'a', use };
  for (const key of [Buffer.from('taken'), '', 'a b', 'ü', 'a'.repeat(129)])
    for (const [asked, version] of [
      [model, undefined],
      [model, 'a'],
      [alone, undefined],
    ] as const)
      assert.throws(() => modelFor(asked, { headers: { 'canary-key': key }, version, requestId }), {
        code: 'bad_request',
        message: /^canary-key: expected 1 to 128 letters/,
      });
});

test('a model is named by its path, else by the query; the job itself and the statistics of all are no further model', () => {
  const inPath = { name: 'fraud', isInPath: true };
  assert.deepEqual(modelNamed('/v2/models/fraud/infer', undefined, 'job'), inPath);
  assert.deepEqual(modelNamed('/v1/models/fraud:predict', { model: 'other' }, 'job'), inPath);
  assert.deepEqual(modelNamed('/predict', { model: 'fraud' }, 'job'), { name: 'fraud', isInPath: false });
  assert.deepEqual(modelNamed('/v2/models/stats/infer', {}, 'job'), { name: 'stats', isInPath: true });
  for (const path of ['/v2/models/job/infer', '/v2/models/stats', '/predict'])
    assert.equal(modelNamed(path, {}, 'job'), undefined, path);
});
