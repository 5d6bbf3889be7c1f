/**
 * Runs test files one after another in this process. Each is a suite, so its hooks are its own; the environment is as
 * before after each, and a clock or a fetch that stays replaced is refused: no file may depend on those before it.
 */
import { deepEqual } from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Loads at once, so that what a file declares belongs to its suite; `import()` would come back outside it. */
const require = createRequire(import.meta.url);
/** lib/contract/variables.ts sets it once, for onnxruntime. */
const STAYS = 'ORT_DISABLE_TELEMETRY';

/**
 * Globals that tests replace, by name. The folder counts, not the function, because packages of osls replace it with a
 * faster one.
 */
const replaceable = (): Readonly<Record<string, unknown>> => ({
  fetch,
  Date,
  'Date.now': Date.now,
  setTimeout,
  setInterval,
  'process.stdout.write': Reflect.get(process.stdout, 'write'),
  'process.cwd()': process.cwd(),
});

function restoreEnvironment(variables: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env))
    if (!(name in variables) && name !== STAYS) delete process.env[name];
  Object.assign(process.env, variables);
}

function load(file: string): void {
  const variables = { ...process.env };
  require(join(ROOT, file));
  const changed = Object.keys(process.env).filter((name) => process.env[name] !== variables[name]);
  deepEqual(
    changed.filter((name) => name !== STAYS),
    [],
    `${file} changes the environment while it loads`,
  );
}

export function runTogether(files: readonly string[]): void {
  for (const file of files) {
    describe(file, () => {
      let variables: NodeJS.ProcessEnv;
      let originals: Readonly<Record<string, unknown>>;
      before(() => {
        variables = { ...process.env };
        originals = replaceable();
      });
      load(file);
      after(() => {
        restoreEnvironment(variables);
        const now = replaceable();
        const left = Object.keys(now).filter((name) => now[name] !== originals[name]);
        deepEqual(left, [], `${file} leaves something replaced`);
      });
    });
  }
}
