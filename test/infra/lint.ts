/**
 * One test that cfn-lint finds no errors in the packaged template, against AWS's published schemas. cfn-lint is a
 * Python program and not a dependency; without it the test is skipped. To run it: `pip install cfn-lint` into a venv,
 * and set CFN_LINT=/path/to/venv/bin/cfn-lint or put it on the PATH.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { Packaged } from '../support/packaging.ts';

const run = promisify(execFile);
/** osls adds dependencies that a reference implies already. */
const PASSED_OVER = ['W3005'];

export function lintTest(packaged: () => Packaged): void {
  test('cfn-lint has nothing to say about the template', async (t) => {
    const command = process.env['CFN_LINT'] ?? 'cfn-lint';
    const version = await run(command, ['--version']).catch(() => undefined);
    if (!version) return t.skip(`no ${command}; see test/infra/lint.ts`);
    t.diagnostic(version.stdout.trim());
    const template = join(packaged().folder, '.serverless', 'cloudformation-template-update-stack.json');
    const options = ['-i', ...PASSED_OVER, '-r', 'us-east-1', 'eu-central-1', '--', template];
    // It exits with a code above 0 when it has something to say.
    const { stdout } = await run(command, options).catch((error: Error & { stdout?: string }) => ({
      stdout: error.stdout || error.message,
    }));
    assert.equal(stdout, '');
  });
}
