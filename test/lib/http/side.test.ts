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

test('a key that is not a text counts as none', () => {
  const headers = { 'canary-key': Buffer.from('taken') };
  assert.equal(modelFor(model, { headers, version: undefined, requestId }), model);
});
