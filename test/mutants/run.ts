/**
 * `npm run test:mutants`: puts one bug at a time into a copy of the repository and runs the tests that reach it. A line
 * that can be broken without a test noticing is not tested, even if it is covered.
 */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { showProgress } from '../../cli/progress.ts';
import { cached, hash } from './cache.ts';
import { type Drawn, draw } from './chance/draw.ts';
import { forEach, type Worker, withCopies } from './copies.ts';
import { coverAll } from './coverage.ts';
import { type Mutant, readByHand } from './mutant.ts';
import { judge, report, resultOf } from './report.ts';
import { type Outcome, tryMutant } from './try.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const BY_HAND = join(ROOT, 'test/mutants/list.jsonl');
const JUDGEMENTS = join(ROOT, 'test/mutants/judgements.json');

const USAGE = `npm run test:mutants -- [--chance N [--seed N]] [--minutes N] [--seconds N] [--save FILE] [--only PATTERN] [--jobs N] [--json]
Without --chance: the bugs by hand of test/mutants/list.jsonl.
  --chance N      N bugs that are drawn by the seed. What was tried on the same sources with the same seconds is not
                  tried again, so that a run that was stopped goes on where it was.
  --seed N        default 1
  --minutes N     begins no further bug after that time (default: none)
  --seconds N     seconds of tests for one bug; what no test has noticed by then has survived (default 30)
  --save FILE     writes the result as lines of JSON
  --only PATTERN  only bugs whose file or guarantee matches this regular expression
  --jobs N        copies that work at the same time (default: the number of processors)
  --json          one line of JSON for each bug, as soon as its outcome is known
`;

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new Error(`--${name} ${text}: expected a whole number >= 1`);
  return value;
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      chance: { type: 'string' },
      seed: { type: 'string', default: '1' },
      minutes: { type: 'string' },
      seconds: { type: 'string', default: '30' },
      save: { type: 'string' },
      only: { type: 'string', default: '' },
      jobs: { type: 'string', default: String(availableParallelism()) },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  return {
    ...values,
    chance: values.chance === undefined ? undefined : wholeNumber('chance', values.chance),
    minutes: values.minutes === undefined ? Number.POSITIVE_INFINITY : wholeNumber('minutes', values.minutes),
    seed: wholeNumber('seed', values.seed),
    seconds: wholeNumber('seconds', values.seconds),
    jobs: wholeNumber('jobs', values.jobs),
    only: new RegExp(values.only, 'i'),
    isWhole: values.only === '',
  };
}

type Options = ReturnType<typeof readOptions>;

/** @returns the bugs to try, and how many of them are enough */
function bugsOf({ chance, seed, only }: Options): { bugs: Iterable<Mutant | Drawn>; enough: number } {
  const matches = ({ file, guarantee = '' }: Mutant) => only.test(file) || only.test(guarantee);
  if (chance !== undefined) return { bugs: draw(ROOT, seed).filter(matches), enough: chance };
  const bugs = readByHand(ROOT, BY_HAND).filter(matches);
  return { bugs, enough: bugs.length };
}

async function main(options: Options): Promise<number> {
  const { bugs, enough } = bugsOf(options);
  if (enough === 0) throw new Error(`--only ${options.only.source}: no bug matches`);
  const stop = new AbortController();
  void once(process, 'SIGINT').then(() => stop.abort(new Error('interrupted')));
  const progress = showProgress(options.json);
  const startedMs = performance.now();
  const minutes = () => (performance.now() - startedMs) / 60_000;
  /** By their places in the order of the draw, in which those of several copies do not end. */
  const outcomes = new Map<number, Outcome>();
  const leftOut: string[] = [];
  let coverageMinutes = 0;
  await withCopies({ root: ROOT, jobs: options.jobs, signal: stop.signal }, async (workers) => {
    const { covered, ...rest } = await coverAll(ROOT, workers, progress);
    leftOut.push(...rest.leftOut);
    coverageMinutes = minutes();
    const known = cached<{ outcome: Outcome; tests: string }>(ROOT, `outcomes-${options.seconds}`);
    const hashes = new Map(covered.map(({ test }) => [test, hash(readFileSync(join(ROOT, test)))]));
    const all = hash([...hashes.values()].join());
    // A bug stays caught while the test that caught it is the same, and survives while all are.
    const testsOf = ({ by }: Outcome) => hashes.get(by?.split(': ')[0] ?? '') ?? all;
    // Some bugs keep a file from loading, which every test notices: they prove nothing, and others are drawn instead.
    const isDone = () => outcomes.size >= enough || minutes() >= options.minutes;
    const tryOne = async (mutant: Mutant, worker: Worker, place: number) => {
      const key = JSON.stringify(mutant);
      const before = known.find(key);
      const isSame = before !== undefined && before.tests === testsOf(before.outcome);
      const outcome = isSame
        ? before.outcome
        : await tryMutant(mutant, worker, covered, options.seconds * 1_000);
      if (!isSame) known.keep(key, { outcome, tests: testsOf(outcome) });
      if (outcome.result === 'broken') return;
      outcomes.set(place, outcome);
      if (options.json) process.stdout.write(`${JSON.stringify(outcome)}\n`);
      const survivors = [...outcomes.values()].filter(({ result }) => result === 'survived');
      progress.update({ label: `${survivors.length} survived`, done: outcomes.size, total: enough });
    };
    await forEach(bugs, workers, tryOne, isDone);
  }).finally(progress.end);

  const inOrder = [...outcomes].sort(([a], [b]) => a - b).map(([, outcome]) => outcome);
  // Several copies may end one more than were asked for.
  const judged = judge(ROOT, inOrder.slice(0, enough), JUDGEMENTS);
  const { seed, jobs } = options;
  const run = {
    seed,
    jobs,
    minutes: Math.round(minutes()),
    coverageMinutes: Math.round(coverageMinutes),
    leftOut,
  };
  if (options.save !== undefined) writeFileSync(options.save, resultOf(ROOT, judged, run));
  const { text, isGood } = report(ROOT, judged, options.isWhole);
  if (!options.json) process.stdout.write(text);
  return isGood ? 0 : 1;
}

try {
  const options = readOptions();
  if (options.help) process.stdout.write(USAGE);
  else process.exitCode = await main(options);
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
