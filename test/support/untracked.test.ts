/** The promises of test/untracked.ts about what run.ts runs. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { childEnvironment } from './environment.ts';
import { temporaryFolder } from './runner.ts';

const UNTRACKED = new URL('../untracked.ts', import.meta.url).href;

/** Runs a test file of its own, with what its processes import first, or without it. */
async function ran(t: TestContext, body: string, isUntracked = true) {
  const file = join(await temporaryFolder(t), 'sample.test.mjs');
  const first = isUntracked ? `import '${UNTRACKED}';\n` : '';
  // An import at the top would load node:test first.
  const imports = `import { executionAsyncId } from 'node:async_hooks';\nconst { test } = await import('node:test');\n`;
  await writeFile(file, `${first}${imports}${body}`);
  const run = [process.execPath, ['--test-reporter=tap', file]] as const;
  const { status, stdout } = spawnSync(...run, { env: childEnvironment(), encoding: 'utf8' });
  return { status, stdout };
}

test('node:test follows each promise, and none where untracked.ts is imported before it', async (t) => {
  const id = 'await executionAsyncId()';
  const body = `test('one', async () => { await null; console.log('each its own:', (${id}) !== (${id})); });`;
  const [tracked, untracked] = await Promise.all([ran(t, body, false), ran(t, body)]);
  assert.deepEqual([tracked.status, untracked.status], [0, 0]);
  assert.match(tracked.stdout, /^each its own: true$/m);
  assert.match(untracked.stdout, /^each its own: false$/m);
});

test('an error that nobody awaits fails the file, during a test and after it', async (t) => {
  const waits = `test('waits', () => new Promise((resolve) => setTimeout(resolve, 50)));`;
  const errors = [
    `test('rejects', async () => { void Promise.reject(new Error('nobody awaits it')); });`,
    `test('throws', () => { setTimeout(() => { throw new Error('nobody awaits it'); }, 20); });`,
    `test('later', () => { setTimeout(() => void Promise.reject(new Error('nobody awaits it')), 20); });`,
  ];
  for (const error of errors) {
    const { status, stdout } = await ran(t, `${error}\n${waits}`);
    assert.equal(status, 1, stdout);
    assert.match(stdout, /nobody awaits it/);
  }
  assert.equal((await ran(t, waits)).status, 0);
});
