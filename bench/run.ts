/**
 * `npm run bench`: runs scenarios, and prints a table of rows and one of targets. A wrong answer fails its scenario: it has
 * no number at all, and the run ends with exit code 1.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { Bench, type Scenario } from './bench.ts';
import { describeMachine, type Line, machineText, type Report, tableText } from './report.ts';
import { batch } from './scenarios/batch.ts';
import { canary } from './scenarios/canary.ts';
import { capture } from './scenarios/capture.ts';
import { cold, coldLarge } from './scenarios/cold.ts';
import { decode } from './scenarios/decode.ts';
import { fresh } from './scenarios/fresh.ts';
import { http } from './scenarios/http.ts';
import { jobs } from './scenarios/jobs.ts';
import { memory } from './scenarios/memory.ts';
import { models } from './scenarios/models.ts';
import { notify } from './scenarios/notify.ts';
import { offline } from './scenarios/offline.ts';
import { processes } from './scenarios/processes.ts';
import { resnet } from './scenarios/resnet.ts';
import { server } from './scenarios/server.ts';
import { single } from './scenarios/single.ts';
import { zip } from './scenarios/zip.ts';
import { targetsText } from './targets.ts';

const ALL: Scenario[] = [
  single,
  canary,
  capture,
  server,
  http,
  processes,
  batch,
  jobs,
  models,
  notify,
  offline,
  resnet,
  decode,
  cold,
  coldLarge,
  zip,
  fresh,
  memory,
];
const USAGE = `Usage: npm run bench -- [scenario...] [--case <text>] [--quick] [--json <file>]

${ALL.map(({ name, about }) => `  ${name.padEnd(10)}${about}`).join('\n')}

Without a name all of them run, in about 12 minutes. --case takes only cases whose name contains the text. --quick
measures once and shortly: it shows that everything works. Peers are measured where npm run bench:install has installed
them. docs/explanation/performance.md says how it is measured.`;

/** @returns exit code */
async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: {
      case: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  const unknown = positionals.filter((name) => !ALL.some((scenario) => scenario.name === name));
  if (values.help || unknown.length > 0) {
    console.error(unknown.length > 0 ? `no scenario ${unknown.join(', ')}\n\n${USAGE}` : USAGE);
    return unknown.length > 0 ? 2 : 0;
  }
  const scenarios = ALL.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  const options = [...positionals];
  if (values.case) options.push('--case', JSON.stringify(values.case));
  if (values.quick) options.push('--quick');
  const machine = describeMachine(`npm run bench${options.length > 0 ? ' -- ' : ''}${options.join(' ')}`);
  const begin = performance.now();
  const seconds = () => (performance.now() - begin) / 1000;
  const bench = await Bench.open({ only: values.case, quick: values.quick });
  try {
    const { lines, failures } = await runAll(bench, scenarios, seconds);
    const used = (await bench.models()).map(({ about, bytes, sha256 }) => ({ about, bytes, sha256 }));
    const loadAfter = loadavg()[0] ?? 0;
    const report: Report = {
      machine,
      loadAfter,
      seconds: seconds(),
      models: used,
      peers: bench.peers,
      lines,
    };
    console.log(`${machineText(report)}\n\n${tableText(lines)}\n\n${targetsText(lines)}`);
    if (values.json) {
      await mkdir(dirname(values.json), { recursive: true });
      await writeFile(values.json, `${JSON.stringify(report, undefined, 2)}\n`);
    }
    return failures > 0 ? 1 : 0;
  } finally {
    await bench.close();
  }
}

async function runAll(bench: Bench, scenarios: readonly Scenario[], seconds: () => number) {
  const lines: Line[] = [];
  let failures = 0;
  for (const scenario of scenarios) {
    const { name, about } = scenario;
    process.stderr.write(`${seconds().toFixed(0).padStart(4)} s  ${name}: ${about}\n`);
    try {
      await bench.emptyRedis();
      lines.push(...(await scenario.run(bench)));
    } catch (error) {
      failures++;
      console.error(error);
      const text = error instanceof Error ? error.message : String(error);
      lines.push({ scenario: name, name: 'all', skipped: `it failed: ${text.split('\n')[0]}` });
    }
  }
  if (lines.length === 0) throw new Error('no case of these scenarios contains the text of --case');
  return { lines, failures };
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
