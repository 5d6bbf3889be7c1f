/**
 * `npm run test:mutants`: puts one bug at a time into a copy of the repository and runs the tests that could see it. A
 * guarantee that can be broken without a test noticing is not tested, whatever its coverage says.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { type Progress, showProgress } from '../../cli/progress.ts';
import { copyRepository, linkShared } from './copy.ts';
import { MUTANTS } from './list.ts';
import { type Mutant, withBug } from './mutant.ts';
import { runTestFile, type TestFile, type TestRun } from './test-file.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

const USAGE = `npm run test:mutants -- [--only PATTERN] [--jobs N] [--json]
  --only PATTERN  only mutants whose file or guarantee matches this regular expression
  --jobs N        copies that work at the same time (default: the number of processors)
  --json          one line of JSON for each mutant, as soon as its outcome is known
`;

/** Below this share of caught mutants the run fails. */
const LEAST_CAUGHT = 0.9;
/** A mutant may make its tests this much slower before it counts as caught by its time limit. */
const SLOWER = 5;
const LEAST_TIMEOUT_MS = 30_000;
const BASELINE_TIMEOUT_MS = 300_000;

interface Outcome {
  readonly mutant: Mutant;
  readonly caught: boolean;
  /** What caught it: a test file, and the title of its first test that failed. */
  readonly by: string | undefined;
  readonly ms: number;
}

interface Worker {
  readonly copy: string;
  readonly signal: AbortSignal;
}

type Milliseconds = ReadonlyMap<string, number>;

/** Gives each item to the next worker that is free. The first error ends all. */
async function forEach<T>(items: readonly T[], workers: readonly Worker[], work: Work<T>): Promise<void> {
  const left = [...items];
  await Promise.all(
    workers.map(async (worker) => {
      for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item, worker);
    }),
  );
}

type Work<T> = (item: T, worker: Worker) => Promise<void>;

/**
 * How long each test file takes without a bug.
 * @throws when one of them fails or is skipped as a whole, because it would then catch everything, or nothing
 */
async function baseline(files: readonly string[], workers: readonly Worker[], progress: Progress) {
  const times = new Map<string, number>();
  await forEach(files, workers, async (file, { copy, signal }) => {
    const run = await runTestFile({ path: file }, copy, BASELINE_TIMEOUT_MS, signal);
    if (run.result !== 'green' || run.passed === 0) {
      const what = run.result === 'green' ? 'skips all its tests' : `is ${run.result} (${run.failed ?? ''})`;
      throw new Error(`${file} ${what} without a mutant:\n${run.output.slice(-4_000)}`);
    }
    times.set(file, run.ms);
    progress.update({ label: 'without mutants', done: times.size, total: files.length });
  });
  return times;
}

async function outcomeOf(mutant: Mutant, { copy, signal }: Worker, times: Milliseconds): Promise<Outcome> {
  const original = await readFile(join(copy, mutant.file), 'utf8');
  const startedMs = performance.now();
  await write(copy, mutant.file, withBug(original, mutant));
  try {
    for (const test of mutant.tests) {
      const limitMs = Math.max(LEAST_TIMEOUT_MS, (times.get(test) ?? 0) * SLOWER);
      const run = await runTestFile({ path: test, skip: mutant.skip }, copy, limitMs, signal);
      if (run.result === 'green') continue;
      assertProof(run, test, mutant);
      if (!(await failsAgain({ path: test, skip: mutant.skip }, run, { copy, signal }, limitMs))) continue;
      const by = `${test}: ${run.result === 'timeout' ? 'its time limit' : (run.failed ?? 'its exit code')}`;
      return { mutant, caught: true, by, ms: performance.now() - startedMs };
    }
    return { mutant, caught: false, by: undefined, ms: performance.now() - startedMs };
  } finally {
    await write(copy, mutant.file, original);
  }
}

/** Tests run a Lua script as it stands in the module that is generated of it. */
async function write(copy: string, file: string, text: string): Promise<void> {
  await writeFile(join(copy, file), text);
  if (file.endsWith('.lua'))
    await promisify(execFile)(process.execPath, ['infra/build/lua.ts'], { cwd: copy });
}

/**
 * One failure may be the machine's: a mutant is caught when its test fails twice. The second time only that test runs,
 * and the whole file where that test alone does not fail.
 */
async function failsAgain(file: TestFile, run: TestRun, { copy, signal }: Worker, limitMs: number) {
  if (run.result === 'timeout') return true;
  if (run.failed !== undefined) {
    const only = run.failed.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
    const alone = await runTestFile({ ...file, only }, copy, limitMs, signal);
    if (alone.result !== 'green') return true;
  }
  return (await runTestFile(file, copy, limitMs, signal)).result !== 'green';
}

/** A mutant that does not even load is caught by every test and proves nothing about any of them. */
function assertProof({ result, output }: TestRun, test: string, { file, guarantee }: Mutant): void {
  if (result !== 'broken') return;
  throw new Error(
    `${file}: with this mutant (${guarantee}) no test of ${test} runs; write a mutant that loads:\n${output.slice(-2_000)}`,
  );
}

interface RunOptions {
  readonly jobs: number;
  readonly progress: Progress;
  readonly signal: AbortSignal;
  readonly onOutcome: (outcome: Outcome) => void;
}

/** @returns the outcomes in the order of the mutants */
async function runMutants(
  mutants: readonly Mutant[],
  { jobs, progress, signal, onOutcome }: RunOptions,
): Promise<Outcome[]> {
  const parent = await mkdtemp(join(tmpdir(), 'mutants-'));
  try {
    await linkShared(ROOT, parent);
    const copies = Array.from({ length: jobs }, (_, i) => copyRepository(ROOT, parent, `${i + 1}`));
    const workers = (await Promise.all(copies)).map((copy) => ({ copy, signal }));
    const times = await baseline([...new Set(mutants.flatMap(({ tests }) => tests))], workers, progress);
    const outcomes = new Map<Mutant, Outcome>();
    await forEach(mutants, workers, async (mutant, worker) => {
      const outcome = await outcomeOf(mutant, worker, times);
      outcomes.set(mutant, outcome);
      onOutcome(outcome);
      progress.update({ label: 'mutants', done: outcomes.size, total: mutants.length });
    });
    return mutants.map((mutant) => outcomes.get(mutant) as Outcome);
  } finally {
    progress.end();
    await rm(parent, { recursive: true, force: true });
  }
}

function report(outcomes: readonly Outcome[], isWhole: boolean): { text: string; isGood: boolean } {
  const caught = outcomes.filter((outcome) => outcome.caught);
  const survivors = outcomes.filter((outcome) => !outcome.caught);
  const listed = survivors.filter(({ mutant }) => mutant.survives !== undefined);
  const unlisted = survivors.filter(({ mutant }) => mutant.survives === undefined);
  const stale = caught.filter(({ mutant }) => mutant.survives !== undefined);
  const share = outcomes.length === 0 ? 0 : caught.length / outcomes.length;
  const lines = [
    ...unlisted.flatMap(({ mutant }) => ['SURVIVED, and no judgement says why:', ...describe(mutant)]),
    ...listed.flatMap(({ mutant }) => [`survived: ${mutant.survives}`, ...describe(mutant)]),
    ...stale.flatMap(({ mutant, by }) => [
      `caught by now (${by}); take its judgement away:`,
      ...describe(mutant),
    ]),
    `${caught.length} of ${outcomes.length} mutants caught (${(share * 100).toFixed(1)} %), ` +
      `${listed.length} survive with a judgement, ${unlisted.length} without`,
  ];
  const isEnough = !isWhole || share >= LEAST_CAUGHT;
  return { text: `${lines.join('\n')}\n`, isGood: isEnough && unlisted.length === 0 };
}

function describe({ file, guarantee, find, replace }: Mutant): string[] {
  const indented = (mark: string, text: string) => text.split('\n').map((line) => `    ${mark} ${line}`);
  return [`  ${file}: ${guarantee}`, ...indented('-', find), ...indented('+', replace), ''];
}

function lineOf({ mutant, ...outcome }: Outcome): string {
  return `${JSON.stringify({ ...mutant, ...outcome, ms: Math.round(outcome.ms) })}\n`;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      jobs: { type: 'string', default: String(availableParallelism()) },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const jobs = Number(values.jobs);
  if (!Number.isInteger(jobs) || jobs < 1)
    throw new Error(`--jobs ${values.jobs}: expected a whole number >= 1`);
  const only = new RegExp(values.only ?? '', 'i');
  const chosen = MUTANTS.filter(({ file, guarantee }) => only.test(file) || only.test(guarantee));
  if (chosen.length === 0) throw new Error(`--only ${values.only}: no mutant matches`);
  for (const mutant of chosen) withBug(await readFile(join(ROOT, mutant.file), 'utf8'), mutant);
  const stop = new AbortController();
  void once(process, 'SIGINT').then(() => stop.abort(new Error('interrupted')));
  const outcomes = await runMutants(chosen, {
    jobs,
    progress: showProgress(values.json),
    signal: stop.signal,
    onOutcome: (outcome) => {
      if (values.json) process.stdout.write(lineOf(outcome));
    },
  });
  const { text, isGood } = report(outcomes, values.only === undefined);
  if (!values.json) process.stdout.write(text);
  return isGood ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
