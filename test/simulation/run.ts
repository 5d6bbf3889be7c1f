/**
 * `npm run test:simulation`: runs seeds for a number of minutes, or each planted fault until a seed finds it. A run that is
 * saved is continued at the seed that it had reached.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { sourcesOf } from './machine/beside.ts';
import { drawPlan } from './plan.ts';
import { PLANTED } from './planted/list.ts';
import { Simulator } from './simulate.ts';
import { pictureOf } from './story/picture.ts';
import { shrinkPlan } from './story/shrink.ts';
import { logOf, storyOf } from './story/story.ts';

const HOUR_MS = 3_600_000;
const SOURCES = ['lib', 'functions', 'sdk', 'local', 'embedded-redis', 'release', 'test/simulation'];
const MOST_PLANTED_SEEDS = 1_000;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '20' },
    first: { type: 'string', default: '1' },
    seed: { type: 'string' },
    save: { type: 'string' },
    planted: { type: 'boolean', default: false },
    only: { type: 'string' },
    picture: { type: 'string' },
    beside: { type: 'string' },
    invariant: { type: 'string' },
    log: { type: 'boolean', default: false },
  },
});

/** The saved part of a run. */
interface Progress {
  /** The commit of the checkout with which it began. */
  readonly commit: string;
  /** Digest of the sources: of what is simulated, and of the simulation. A run continues as long as they are the same. */
  readonly sources: string;
  readonly isChanged: boolean;
  readonly firstSeed: number;
  histories: number;
  virtualHours: number;
  events: number;
  enqueues: number;
  outcomes: number;
  processorSeconds: number;
  readonly broken: { readonly seed: number; readonly invariant: string; readonly text: string }[];
}

function git(...args: string[]): string {
  return execFileSync('git', args, { encoding: 'utf8' }).trim();
}

function newProgress(): Progress {
  const counts = { histories: 0, virtualHours: 0, events: 0, enqueues: 0, outcomes: 0, processorSeconds: 0 };
  const files = git('ls-tree', '-r', 'HEAD', '--', ...SOURCES)
    .split('\n')
    .filter((line) => !line.endsWith('.json'));
  const changed = git('status', '--porcelain', '--', ...SOURCES)
    .split('\n')
    .filter((line) => !/\.json$|^$/.test(line));
  return {
    commit: git('rev-parse', 'HEAD'),
    sources: createHash('sha256').update(files.join('\n')).digest('hex').slice(0, 16),
    isChanged: changed.length > 0,
    firstSeed: Number(values.first),
    ...counts,
    broken: [],
  };
}

/** @returns a saved run of these sources, or a new one */
function startProgress(): Progress {
  const fresh = newProgress();
  if (!values.save || !existsSync(values.save)) return fresh;
  const saved: Progress = JSON.parse(readFileSync(values.save, 'utf8'));
  const isSame =
    saved.sources === fresh.sources &&
    !saved.isChanged &&
    !fresh.isChanged &&
    saved.firstSeed === fresh.firstSeed;
  return isSame ? saved : fresh;
}

async function runSeeds(): Promise<void> {
  const simulator = await Simulator.open(
    [],
    values.beside === undefined ? undefined : sourcesOf(values.beside),
  );
  const progress = startProgress();
  const endAt = performance.now() + Number(values.minutes) * 60_000;
  const usedBefore = progress.processorSeconds;
  const started = process.cpuUsage();
  while (performance.now() < endAt) {
    const seed = progress.firstSeed + progress.histories;
    const { history, violations, virtualMs, events } = await simulator.seed(seed);
    progress.histories++;
    progress.virtualHours += virtualMs / HOUR_MS;
    progress.events += events;
    progress.enqueues += history.enqueues.length;
    progress.outcomes += history.outcomes.length;
    const { user, system } = process.cpuUsage(started);
    progress.processorSeconds = usedBefore + (user + system) / 1e6;
    const [first] = violations;
    if (first) {
      const { invariant, text } = first;
      progress.broken.push({ seed, invariant, text: text.split('\n')[0] ?? text });
      process.exitCode = 1;
      console.log(`seed ${seed} breaks "${invariant}": ${text}`);
    }
    if (values.save && progress.histories % 5 === 0) save(progress);
  }
  if (values.save) save(progress);
  const { histories, virtualHours, processorSeconds, broken } = progress;
  console.log(
    `${histories} histories, ${virtualHours.toFixed(1)} virtual hours, ${processorSeconds.toFixed(0)} s of processor time, ${broken.length} broken`,
  );
}

function save(progress: Progress): void {
  const rounded = {
    ...progress,
    virtualHours: round(progress.virtualHours),
    processorSeconds: round(progress.processorSeconds),
  };
  writeFileSync(values.save ?? '', `${JSON.stringify(rounded, undefined, 2)}\n`);
}

const round = (value: number) => Math.round(value * 1000) / 1000;

async function tellSeed(seed: number): Promise<void> {
  const fault = PLANTED.find(({ name }) => name === values.only);
  if (values.only !== undefined && !fault)
    throw new Error(
      `no planted fault is called ${values.only}: ${PLANTED.map(({ name }) => name).join(', ')}`,
    );
  const simulator = await Simulator.open(fault ? [fault] : []);
  const plan = drawPlan(seed);
  if (values.log) return console.log(logOf(await simulator.plan(plan)));
  const { violations: all } = await simulator.plan(plan);
  const first = all.find(({ invariant }) => values.invariant === undefined || invariant === values.invariant);
  if (!first) return console.log(`seed ${seed}: nothing went wrong`);
  const shrunk = await shrinkPlan(plan, async (smaller) => {
    const { violations } = await simulator.plan(smaller);
    return violations.some(({ invariant }) => invariant === first.invariant);
  });
  const simulated = await simulator.plan(shrunk);
  const violation = simulated.violations.find(({ invariant }) => invariant === first.invariant);
  console.log(storyOf(shrunk, simulated, violation));
  if (values.picture && violation) writeFileSync(values.picture, pictureOf(simulated.history, violation));
}

async function runPlanted(): Promise<void> {
  for (const fault of PLANTED.filter(({ name }) => values.only === undefined || name === values.only)) {
    const simulator = await Simulator.open([fault]);
    const first = Number(values.first);
    let found: string | undefined;
    for (let seed = first; seed < first + MOST_PLANTED_SEEDS && !found; seed++) {
      const violation = (await simulator.seed(seed)).violations.find(({ invariant }) =>
        fault.seenBy.includes(invariant),
      );
      if (violation)
        found = `seed ${seed}, after ${seed - first + 1} histories: "${violation.invariant}", ${violation.text}`;
    }
    console.log(`${fault.name}: ${found ?? `not found within ${MOST_PLANTED_SEEDS} seeds`}`);
    if (!found) process.exitCode = 1;
  }
}

if (values.planted) await runPlanted();
else if (values.seed !== undefined) await tellSeed(Number(values.seed));
else await runSeeds();
