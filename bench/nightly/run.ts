/**
 * `npm run bench:nightly`: runs the bench, compares it with the last run, and names the commit that moved a row beyond its
 * spread. The run takes the place of the last one, so that each change is reported once.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import type { Report } from '../report.ts';
import { type BenchRun, benchAt, benchIn, commitsSince, nameOf } from './checkout.ts';
import { keyOf, type Moved, movedRows, movedText, rowsOf } from './moved.ts';
import { findCommit } from './search.ts';

const MINUTE_MS = 60_000;
const USAGE = `Usage: npm run bench:nightly -- --last <file> [scenario...] [--case <text>] [--minutes <n>] [--quick]

Runs the scenarios as \`npm run bench\` does, compares them with the run in the file, and saves them there. For each row that
moved beyond its spread it looks for the commit: it measures those in between, each in a work tree of its own, for
--minutes at most (default 120). Without the file it only saves the run. Exit code: 0 nothing moved, 1 something did, 2 it could not
be compared.`;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: {
      last: { type: 'string' },
      case: { type: 'string', default: '' },
      minutes: { type: 'string', default: '120' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  const minutes = Number(values.minutes);
  if (values.help || values.last === undefined || !(minutes > 0)) {
    console.error(USAGE);
    return values.help ? 0 : 2;
  }
  const endsAt = performance.now() + minutes * MINUTE_MS;
  const asked = { scenarios: positionals, only: values.case, isQuick: values.quick };
  const root = process.cwd();
  const last = await lastRun(values.last);
  await mkdir(dirname(values.last), { recursive: true });
  const now = await benchIn(root, { ...asked, limitMs: Math.ceil(minutes * MINUTE_MS) });
  const moved = last ? movedRows(last, now) : [];
  const commits = last ? await commitsOf(root, last, moved, { asked, endsAt }) : new Map<string, string>();
  await writeFile(values.last, `${JSON.stringify(now, undefined, 2)}\n`);
  if (!last) console.log(`${values.last}: the first run is saved`);
  else if (moved.length === 0)
    console.log(`no row of ${rowsOf(now).length} moved since ${last.machine.commit}`);
  else console.log(movedText(moved, commits));
  return moved.length > 0 ? 1 : 0;
}

async function lastRun(file: string): Promise<Report | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new Error(`${file} is not a run of the bench: ${String(error)}`, { cause: error });
  }
}

interface Search {
  readonly asked: Omit<BenchRun, 'limitMs'>;
  readonly endsAt: number;
}

/** @returns by row, the commit that moved it, or why none is named. A commit is measured once for all rows of a scenario. */
async function commitsOf(
  root: string,
  last: Report,
  moved: readonly Moved[],
  { asked, endsAt }: Search,
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  if (moved.length === 0) return found;
  const [commit = ''] = last.machine.commit.split(' ');
  const commits = commitsSince(root, commit);
  const reports = new Map<string, Promise<Report | undefined>>();
  const reportAt = (at: string, scenario: string) => {
    const known = reports.get(`${at} ${scenario}`);
    const limitMs = Math.ceil(endsAt - performance.now());
    if (known || limitMs <= 0) return known;
    const made = benchAt(root, at, { ...asked, scenarios: [scenario], limitMs });
    reports.set(`${at} ${scenario}`, made);
    return made;
  };
  for (const one of moved) {
    const medianAt = async (at: string) => {
      const report = await reportAt(at, one.row.scenario);
      return report && rowsOf(report).find((row) => keyOf(row) === keyOf(one.row))?.value.median;
    };
    const named = (await findCommit(commits, one, medianAt)).map((at) => nameOf(root, at));
    const [first, ...others] = named;
    const text = others.length === 0 ? first : `one of ${named.length} commits, ${first} to ${others.at(-1)}`;
    found.set(keyOf(one.row), text ?? 'no commit: the machine, or its load');
  }
  return found;
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exit(2);
  },
);
