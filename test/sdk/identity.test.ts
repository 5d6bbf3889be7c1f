/** Identities of enqueues. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newIdentity } from '../../sdk/http/digest.ts';

test('a page without https has no randomUUID, and gets identities of 128 bits all the same', (t) => {
  // The function is a property of what `crypto` inherits from.
  Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true });
  t.after(() => Reflect.deleteProperty(crypto, 'randomUUID'));
  const identities = Array.from({ length: 100 }, newIdentity);
  for (const identity of identities) assert.match(identity, /^[0-9a-f]{32}$/);
  assert.equal(new Set(identities).size, 100);
});
