/**
 * `npm run bench [-- <scenario>... --case <text> --json <file> --docs]`. In: names of scenarios. Out: a table of rows, a
 * table of targets, and JSON; with --docs also the pages that show them.
 * Trap: a wrong answer fails its scenario: it then has no number at all, and the run ends with exit code 1.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Bench, type Scenario } from './bench.ts';
import { writeDocs } from './docs.ts';
import { describeMachine, type Line, machineText, type Report, tableText } from './report.ts';
import { batch } from './scenarios/batch.ts';
import { codecs } from './scenarios/codecs.ts';
import { cold } from './scenarios/cold.ts';
import { http } from './scenarios/http.ts';
import { memory } from './scenarios/memory.ts';
import { multistream } from './scenarios/multistream.ts';
import { offline } from './scenarios/offline.ts';
import { queue } from './scenarios/queue.ts';
import { resnet } from './scenarios/resnet.ts';
import { server } from './scenarios/server.ts';
import { single } from './scenarios/single.ts';
import { zip } from './scenarios/zip.ts';
import { TARGETS, targetsText } from './targets.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SCENARIOS: readonly Scenario[] = [
  single,
  multistream,
  server,
  http,
  batch,
  queue,
  offline,
  resnet,
  codecs,
  cold,
  zip,
  memory,
];
/** Stands for every scenario that a target is judged by. */
const ALL_TARGETS = 'targets';

const USAGE = `Usage: npm run bench -- [scenario...] [--case <text>] [--json <file>] [--docs]

${SCENARIOS.map(({ name, about }) => `  ${name.padEnd(13)}${about}`).join('\n')}
  ${ALL_TARGETS.padEnd(13)}the scenarios that the targets are judged by

Without a name all of them run, in less than 10 minutes. --case takes only cases whose name contains the text. --docs
writes docs/benchmarks/ and the tables of docs/benchmarks.md, which says how it is measured. Peers are measured where
npm run bench:install has installed them.`;

interface Request {
  readonly scenarios: readonly Scenario[];
  readonly command: string;
  readonly onlyCase: string;
  readonly json: string | undefined;
  readonly docs: boolean;
}

/** @returns undefined after it printed what it did not understand, or the help that was asked for */
function readRequest(): Request | number {
  const { values, positionals } = parseArgs({
    options: {
      case: { type: 'string', default: '' },
      json: { type: 'string' },
      docs: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  const refuse = (message: string) => {
    console.error(`${message}\n\n${USAGE}`);
    return 2;
  };
  if (values.help) {
    console.error(USAGE);
    return 0;
  }
  const known = [...SCENARIOS.map(({ name }) => name), ALL_TARGETS];
  const unknown = positionals.filter((name) => !known.includes(name));
  if (unknown.length > 0) return refuse(`no scenario ${unknown.join(', ')}`);
  if (values.docs && (positionals.length > 0 || values.case)) {
    return refuse('--docs shows whole runs: it goes with no scenario and no case');
  }
  const judging = TARGETS.map(({ scenario }) => scenario);
  const isChosen = ({ name }: Scenario) =>
    positionals.length === 0 ||
    positionals.includes(name) ||
    (positionals.includes(ALL_TARGETS) && judging.includes(name));
  const options = [
    ...positionals,
    ...(values.case ? ['--case', JSON.stringify(values.case)] : []),
    ...(values.docs ? ['--docs'] : []),
  ];
  return {
    scenarios: SCENARIOS.filter(isChosen),
    command: ['npm run bench', ...(options.length > 0 ? ['--', ...options] : [])].join(' '),
    onlyCase: values.case,
    json: values.json,
    docs: values.docs,
  };
}

/** @returns exit code */
async function main(): Promise<number> {
  const request = readRequest();
  if (typeof request === 'number') return request;
  const machine = describeMachine(ROOT, request.command);
  const begin = performance.now();
  const bench = await Bench.open(request.onlyCase);
  try {
    const lines: Line[] = [];
    let failures = 0;
    for (const scenario of request.scenarios) {
      const elapsed = ((performance.now() - begin) / 1000).toFixed(0);
      process.stderr.write(`${elapsed.padStart(4)} s  ${scenario.name}: ${scenario.about}\n`);
      try {
        lines.push(...(await scenario.run(bench)));
      } catch (error) {
        failures++;
        console.error(error);
        const text = error instanceof Error ? error.message : String(error);
        lines.push({ scenario: scenario.name, name: 'all', skipped: `it failed: ${text.split('\n')[0]}` });
      }
    }
    if (lines.length === 0) {
      console.error(`no case contains ${JSON.stringify(request.onlyCase)}`);
      return 2;
    }
    const report: Report = {
      machine,
      loadAfter: loadavg()[0] ?? 0,
      seconds: (performance.now() - begin) / 1000,
      models: (await bench.models()).map(({ about, bytes, sha256 }) => ({ about, bytes, sha256 })),
      peers: Object.fromEntries(bench.peers()),
      lines,
    };
    await show(report, request, failures);
    return failures > 0 ? 1 : 0;
  } finally {
    await bench.close();
  }
}

async function show(report: Report, { scenarios, json, docs }: Request, failures: number): Promise<void> {
  console.log(machineText(report));
  console.log(`\n${tableText(report.lines)}\n`);
  const names = scenarios.map(({ name }) => name);
  if (TARGETS.some(({ scenario }) => names.includes(scenario))) console.log(`${targetsText(report.lines)}\n`);
  if (json) {
    const file = resolve(json);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, `${JSON.stringify(report, undefined, 2)}\n`);
  }
  if (docs && failures > 0) console.error('a scenario failed: docs/ stays as it is');
  else if (docs) await writeDocs(report);
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
