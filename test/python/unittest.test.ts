/** The tests of the Python client that are in Python. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const MODULES = readdirSync(HERE).filter((name) => /^test_\w+\.py$/.test(name));

/** Of a Python that has more than Debian's: PYTHON=venv/bin/python. */
const python = process.env['PYTHON'] ?? PYTHON;
const hasZoo = spawnSync(python, ['-c', 'import numpy, pyarrow, redis']).status === 0;
const WITH_ZOO = { skip: hasZoo ? false : `needs numpy, pyarrow and redis for ${python}` };

for (const module of MODULES) {
  test(`${module} passes`, module === 'test_compat.py' ? WITH_ZOO : WITH_PYTHON, async () => {
    const env = childEnvironment({ PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1' });
    // Clients of tests are not closed one by one.
    const args = ['-W', 'ignore::ResourceWarning', '-m', 'unittest', module];
    const { stderr } = await promisify(execFile)(python, args, { cwd: HERE, env, timeout: 600_000 });
    assert.match(stderr, /^Ran \d+ tests/m);
  });
}

test('there are tests in Python', () => assert.ok(MODULES.length >= 3));
