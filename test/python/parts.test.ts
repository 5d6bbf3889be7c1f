/** The parts of the Python client, without a service. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { HERE, testModule } from './unittest.ts';

testModule('test_parts.py');

test('each module of tests in Python has a file that runs it', () => {
  const names = readdirSync(HERE);
  const modules = names.filter((name) => /^test_\w+\.py$/.test(name));
  assert.ok(modules.length >= 4);
  const missing = modules.filter(
    (name) => !names.includes(`${name.slice('test_'.length, -'.py'.length)}.test.ts`),
  );
  assert.deepEqual(missing, []);
});
