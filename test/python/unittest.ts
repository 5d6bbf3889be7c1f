/** Runs the tests of the Python client that are in Python, each module in a file of its own, as the fastest says most. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';

/** The folder of the modules. */
export const HERE = fileURLToPath(new URL('.', import.meta.url));

/** A Python that has more packages than Debian's: PYTHON=venv/bin/python. */
export const python = process.env['PYTHON'] ?? PYTHON;

/** @param module of HERE */
export function testModule(module: string, options: { readonly skip: string | boolean } = WITH_PYTHON): void {
  test(`${module} passes`, options, async () => {
    const env = childEnvironment({ PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1' });
    // Clients of tests are not closed one by one.
    const args = ['-W', 'ignore::ResourceWarning', '-m', 'unittest', module];
    const { stderr } = await promisify(execFile)(python, args, { cwd: HERE, env, timeout: 600_000 });
    assert.match(stderr, /^Ran \d+ tests/m);
  });
}
