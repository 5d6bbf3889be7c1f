/**
 * Learns from V8, and from Python's own tracing, which test files run which pieces of the sources, in all processes and
 * threads that they start.
 */
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Progress } from '../../cli/progress.ts';
import { cached } from './cache.ts';
import { forEach, type Worker } from './copies.ts';
import { runTestFile, type TestRun } from './test-file.ts';

/** For each file of the sources, the pieces that ran: where each begins and ends, in turn. */
export type Reached = Readonly<Record<string, readonly number[]>>;

export interface Covered {
  readonly test: string;
  readonly ms: number;
  readonly reached: Reached;
}

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly {
      readonly startOffset: number;
      readonly endOffset: number;
      readonly count: number;
    }[];
  }[];
}

const LIMIT_MS = 300_000;
const TRACER = fileURLToPath(new URL('trace.py', import.meta.url));

/**
 * Coverage of the files of `npm test`. What is not green without a bug would catch everything, and is left out.
 * @param root the checkout
 */
export async function coverAll(
  root: string,
  workers: readonly Worker[],
  progress: Progress,
): Promise<{ readonly covered: readonly Covered[]; readonly leftOut: readonly string[] }> {
  const known = cached<Covered>(root, 'reached');
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const globs = [...(scripts.test as string).matchAll(/"(test\/[^"]+)"/g)].map(([, glob]) => glob as string);
  const tests = globSync(globs, { cwd: root }).sort();
  const covered: Covered[] = [];
  const leftOut: string[] = [];
  await forEach(tests, workers, async (test, worker) => {
    const key = readFileSync(join(root, test), 'utf8');
    const before = known.find(key);
    // One failure may be the machine's.
    const found = before ?? (await cover(test, worker)) ?? (await cover(test, worker));
    if (found === undefined) leftOut.push(test);
    else covered.push(before ?? known.keep(key, found));
    progress.update({ label: 'coverage', done: covered.length, total: tests.length });
  });
  return { covered, leftOut };
}

/** @returns nothing when the test file is not green */
export async function cover(test: string, { copy, signal }: Worker): Promise<Covered | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'coverage-'));
  const lines = join(copy, 'python-lines');
  const tracer = join(copy, 'python', 'sitecustomize.py');
  mkdirSync(lines);
  copyFileSync(TRACER, tracer);
  try {
    // Functions from a compile cache are counted coarsely.
    const env = { NODE_V8_COVERAGE: folder, NODE_DISABLE_COMPILE_CACHE: '1' };
    const run: TestRun = await runTestFile({ path: test, env }, copy, LIMIT_MS, signal);
    if (run.result !== 'green') return undefined;
    return {
      test,
      ms: Math.round(run.ms),
      reached: { ...readCoverage(folder, copy), ...readLines(lines, copy) },
    };
  } finally {
    for (const path of [folder, lines, tracer]) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * Python reports only the first line of a longer statement, so lines indented below it count too, except in the body of
 * a block.
 */
function readLines(folder: string, copy: string): Reached {
  const told = readdirSync(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'));
  const numbers = Map.groupBy(new Set(told.filter(Boolean)), (line) => line.split('\t')[0] as string);
  const reached = [...numbers].filter(([path]) => existsSync(join(copy, path)));
  return Object.fromEntries(
    reached.map(([path, found]) => {
      const text = readFileSync(join(copy, path), 'utf8');
      const lines = text.split('\n');
      const units = new Uint8Array(text.length);
      let end = 0;
      const starts = lines.map((line) => (end += line.length + 1) - line.length - 1);
      for (const one of found) {
        const first = Number(one.split('\t')[1]) - 1;
        let next = first + 1;
        if (!/:\s*(#.*)?$/.test(lines[first] ?? ''))
          while (next < lines.length && isContinued(lines, first, next)) next++;
        units.fill(1, starts[first], starts[next]);
      }
      return [path, runsOf(units)];
    }),
  );
}

const indentOf = (line = '') => line.search(/\S|$/);

const isContinued = (lines: readonly string[], first: number, next: number) =>
  indentOf(lines[next]) > indentOf(lines[first]) || /^\s*[)\]}]/.test(lines[next] ?? '');

function readCoverage(folder: string, copy: string): Reached {
  const prefix = `${pathToFileURL(copy).href}/`;
  const painted = new Map<string, Uint8Array>();
  for (const name of readdirSync(folder)) {
    let scripts: readonly ScriptCoverage[];
    try {
      scripts = JSON.parse(readFileSync(join(folder, name), 'utf8')).result;
    } catch {
      // The file of a process that was killed while writing it.
      continue;
    }
    for (const script of scripts) {
      const path = script.url.startsWith(prefix) ? script.url.slice(prefix.length).replace(/\?.*/, '') : '';
      if (!/\.[cm]?[jt]s$/.test(path) || path.startsWith('node_modules/') || path.startsWith('test/'))
        continue;
      const now = paint(script);
      const before = painted.get(path);
      if (before?.length === now.length)
        for (const [i, ran] of now.entries()) before[i] = (before[i] ?? 0) | ran;
      else painted.set(path, now);
    }
  }
  return Object.fromEntries([...painted].map(([path, units]) => [path, runsOf(units)]));
}

/** Inner ranges come after the outer ones that they refine. */
function paint({ functions }: ScriptCoverage): Uint8Array {
  const ranges = functions.flatMap((one) => one.ranges);
  const units = new Uint8Array(Math.max(0, ...ranges.map(({ endOffset }) => endOffset)));
  const outerFirst = [...functions].sort((a, b) => sizeOf(b) - sizeOf(a));
  for (const one of outerFirst) {
    for (const { startOffset, endOffset, count } of one.ranges) {
      units.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    }
  }
  return units;
}

const sizeOf = ({ ranges: [outer] }: ScriptCoverage['functions'][number]) =>
  outer === undefined ? 0 : outer.endOffset - outer.startOffset;

function runsOf(units: Uint8Array): number[] {
  const runs: number[] = [];
  for (let i = 0; i <= units.length; i++) if ((units[i] ?? 0) !== (units[i - 1] ?? 0)) runs.push(i);
  return runs;
}

export function isReached(runs: readonly number[] | undefined, place: number): boolean {
  if (runs === undefined) return false;
  const next = runs.findIndex((edge) => edge > place);
  return next % 2 === 1;
}

const lengthOf = (runs: readonly number[]) => runs.reduce((sum, edge, i) => sum + (i % 2 ? edge : -edge), 0);

/**
 * The test files that run a piece, the likeliest to notice a bug there for their time first: those that run little else.
 */
export function testsThatReach(covered: readonly Covered[], file: string, start: number): readonly Covered[] {
  const found = covered.filter(({ reached }) => isReached(reached[file], start));
  const worth = (one: Covered) => focus(one, file) / one.ms;
  return found.sort((a, b) => worth(b) - worth(a));
}

const totals = new WeakMap<Covered, number>();

function focus(one: Covered, file: string): number {
  const total = totals.get(one) ?? Object.values(one.reached).reduce((sum, runs) => sum + lengthOf(runs), 0);
  totals.set(one, total);
  return lengthOf(one.reached[file] ?? []) / Math.max(1, total);
}
