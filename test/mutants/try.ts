/** Puts one bug into a copy of the repository and looks for a test that notices. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Worker } from './copies.ts';
import { type Covered, testsThatReach } from './coverage.ts';
import { type Mutant, withBug } from './mutant.ts';
import { runTestFile, type TestRun } from './test-file.ts';

export interface Outcome {
  readonly mutant: Mutant;
  /** `broken`: with the bug the file cannot even be loaded, which proves nothing about any test. */
  readonly result: 'caught' | 'survived' | 'broken';
  /** The catch: a test file, and the title of its first test that failed. */
  readonly by?: string;
  /** How many test files ran, and how many reach the bug. */
  readonly tried: number;
  readonly reached: number;
}

/** A mutant may make its tests this much slower before it counts as caught by its time limit. */
const SLOWER = 5;
const LEAST_TIMEOUT_MS = 30_000;
/** A test file that is not measured by coverage. */
const USUAL_MS = 5_000;

/**
 * @param budgetMs no further test file runs after this time; what is not caught by then has survived
 */
export async function tryMutant(
  mutant: Mutant,
  worker: Worker,
  covered: readonly Covered[],
  budgetMs: number,
): Promise<Outcome> {
  const tests = testsFor(mutant, covered);
  const original = await readFile(join(worker.copy, mutant.file), 'utf8');
  await write(worker, mutant.file, withBug(original, mutant));
  const startedMs = performance.now();
  let tried = 0;
  try {
    for (const { test, ms } of tests) {
      if (performance.now() - startedMs > budgetMs) break;
      const limitMs = Math.max(LEAST_TIMEOUT_MS, ms * SLOWER);
      const run = await runTestFile({ path: test }, worker.copy, limitMs, worker.signal);
      tried++;
      if (run.result === 'broken') return { mutant, result: 'broken', tried, reached: tests.length };
      if (run.result === 'green' || !(await failsAgain(test, run, worker, limitMs))) continue;
      const title = run.result === 'timeout' ? 'its time limit' : (run.failed ?? 'its exit code');
      return { mutant, result: 'caught', by: `${test}: ${title}`, tried, reached: tests.length };
    }
    return { mutant, result: 'survived', tried, reached: tests.length };
  } finally {
    await write(worker, mutant.file, original);
  }
}

/** Tests run Lua scripts from the generated module, which is made again. */
async function write({ copy }: Worker, file: string, text: string): Promise<void> {
  await writeFile(join(copy, file), text);
  if (file.endsWith('.lua'))
    await promisify(execFile)(process.execPath, ['infra/build/lua.ts'], { cwd: copy });
}

/**
 * One failure may be the machine's: a mutant is caught when its test fails twice. The second time only that test runs,
 * and the whole file where that test alone does not fail.
 */
async function failsAgain(path: string, run: TestRun, { copy, signal }: Worker, limitMs: number) {
  if (run.result === 'timeout') return true;
  if (run.failed !== undefined) {
    const only = run.failed.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
    const alone = await runTestFile({ path, only }, copy, limitMs, signal);
    if (alone.result !== 'green') return true;
  }
  return (await runTestFile({ path }, copy, limitMs, signal)).result !== 'green';
}

/** Coverage does not see what runs in Redis and in templates. */
const UNSEEN: readonly (readonly [RegExp, readonly string[]])[] = [
  [/\.lua$/, ['test/lib/redis/', 'test/lib/results/', 'test/lib/compose/']],
  [/\.yml$/, ['test/infra/']],
];

function testsFor(
  { file, start, tests }: Mutant,
  covered: readonly Covered[],
): { test: string; ms: number }[] {
  const timed = (test: string) => ({ test, ms: covered.find((one) => one.test === test)?.ms ?? USUAL_MS });
  if (tests !== undefined) return tests.map(timed);
  const folders = UNSEEN.find(([pattern]) => pattern.test(file))?.[1];
  if (folders === undefined) {
    const found = testsThatReach(covered, file, start);
    // Code in a bundle is not covered either, but the tests of the same folder may run it.
    return found.length > 0 ? [...found] : below([`test/${dirname(file)}/`], covered);
  }
  return below(folders, covered);
}

/** Those of the first folder first, and the fastest of each. */
function below(folders: readonly string[], covered: readonly Covered[]): Covered[] {
  return folders.flatMap((folder) =>
    covered.filter(({ test }) => test.startsWith(folder)).sort((a, b) => a.ms - b.ms),
  );
}
