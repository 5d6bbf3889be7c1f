/**
 * Runs one test file of a copy in a process group of its own until its first test fails, and leaves no process of it
 * behind.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';

export interface TestRun {
  /** `broken`: the file ended before any of its tests did, which proves nothing. */
  readonly result: 'green' | 'red' | 'timeout' | 'broken';
  /** Title of the first test that failed. */
  readonly failed: string | undefined;
  /** Tests that ran and were not skipped. */
  readonly passed: number;
  readonly ms: number;
  readonly output: string;
}

const MAX_OUTPUT = 4 * 1024 * 1024;
const REPORT_MS = 50;
/** How long a test waits for what a bug may keep away; without a bug it comes within a second or two. */
const TEST_UNTIL_MS = '20000';
const FAILED = /^ *not ok \d+ - (.*)$/m;

export interface TestFile {
  readonly path: string;
  /** Regular expression: titles of the only tests to run. Default all. */
  readonly only?: string | undefined;
  /** Besides those of this process. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export async function runTestFile(
  { path, only, env: more }: TestFile,
  cwd: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<TestRun> {
  signal.throwIfAborted();
  const startedMs = performance.now();
  const options = ['--test-reporter=tap'];
  if (only !== undefined) options.push(`--test-name-pattern=${only}`);
  // Inherited from `node --test`, it would make the file report to a parent in binary.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, [...options, path], {
    cwd,
    // A bug changes one of the hundreds of modules that a test file loads.
    env: {
      ...env,
      TEST_UNTIL_MS,
      NODE_COMPILE_CACHE: join(cwd, 'node_modules', '.cache', 'compile'),
      ...more,
    },
    // A group of its own: what a crashed test has started is ended with it.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const collect = (chunk: Buffer) => {
    if (output.length < MAX_OUTPUT) output += chunk.toString();
    // One failure is enough, but its report shall be whole.
    if (FAILED.test(output)) setTimeout(endGroup, REPORT_MS);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  let isLate = false;
  const endGroup = () => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL');
    } catch {
      // Every process of the group has ended.
    }
  };
  const timer = setTimeout(() => {
    isLate = true;
    endGroup();
  }, timeoutMs);
  signal.addEventListener('abort', endGroup);
  const closed = new Promise((resolve) => child.on('close', resolve));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', resolve);
  });
  clearTimeout(timer);
  signal.removeEventListener('abort', endGroup);
  // A process that the test left behind holds the pipes, which end with it.
  endGroup();
  await closed;
  signal.throwIfAborted();
  const ran = countTests(output);
  const isGreen = code === 0 && ran.failed === undefined;
  const result = isLate ? 'timeout' : ran.all === 0 ? 'broken' : isGreen ? 'green' : 'red';
  return { result, failed: ran.failed, passed: ran.passed, ms: performance.now() - startedMs, output };
}

/** Counts the tests of a TAP report, suites included. The innermost failure comes first. */
function countTests(tap: string): { all: number; passed: number; failed: string | undefined } {
  const tests = [...tap.matchAll(/^ *(not )?ok \d+ - (.*)$/gm)];
  return {
    all: tests.length,
    passed: tests.filter(([, not, title]) => !not && !/ # SKIP/.test(title as string)).length,
    failed: FAILED.exec(tap)?.[1],
  };
}
