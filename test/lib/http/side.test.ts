/** Which version answers a request that names one, or none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Model } from '../../../lib/contract/values.ts';
import { modelFor } from '../../../lib/http/side.ts';

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
