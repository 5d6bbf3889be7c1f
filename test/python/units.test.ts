/** The tests of the parts of wkr_serving that are in Python. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ENVIRONMENT } from '../lib/workers/child.ts';
import { PYTHON, WITH_PYTHON } from '../support/python.ts';

test('test_units.py passes', WITH_PYTHON, async () => {
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const args = ['-m', 'unittest', 'test_units.py'];
  const { stderr } = await promisify(execFile)(PYTHON, args, { cwd, env: ENVIRONMENT, timeout: 60_000 });
  assert.match(stderr, /^Ran \d+ tests/m);
});
