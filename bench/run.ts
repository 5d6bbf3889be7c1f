/**
 * `npm run bench [-- <scenario>... --case <text> --json <file>]`. In: names of scenarios. Out: one table, and JSON.
 * Trap: a wrong answer or a failed scenario ends the run with exit code 1: no table without all of its checks.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Bench, type Scenario } from './bench.ts';
import { describeMachine, type Line, machineText, tableText } from './report.ts';
import { batch } from './scenarios/batch.ts';
import { codecs } from './scenarios/codecs.ts';
import { cold } from './scenarios/cold.ts';
import { http } from './scenarios/http.ts';
import { queue } from './scenarios/queue.ts';
import { single } from './scenarios/single.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SCENARIOS: readonly Scenario[] = [single, http, batch, queue, codecs, cold];

const USAGE = `Usage: npm run bench -- [scenario...] [--case <text>] [--json <file>]

${SCENARIOS.map(({ name, about }) => `  ${name.padEnd(8)}${about}`).join('\n')}

Without a name all of them run, in less than 4 minutes. --case takes only cases whose name contains the text. docs/benchmarks.md says how it is measured.`;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: {
      case: { type: 'string', default: '' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  const unknown = positionals.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (values.help || unknown.length > 0) {
    console.error(unknown.length > 0 ? `no scenario ${unknown.join(', ')}\n\n${USAGE}` : USAGE);
    return unknown.length > 0 ? 2 : 0;
  }
  const chosen = SCENARIOS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  const options = [...positionals, ...(values.case ? ['--case', JSON.stringify(values.case)] : [])];
  const command = ['npm run bench', ...(options.length > 0 ? ['--', ...options] : [])].join(' ');
  const machine = describeMachine(ROOT, command);
  const begin = performance.now();
  const bench = await Bench.open(values.case);
  try {
    const lines: Line[] = [];
    for (const scenario of chosen) {
      process.stderr.write(`${scenario.name}: ${scenario.about}\n`);
      lines.push(...(await scenario.run(bench)));
    }
    const models = await bench.models();
    const loadAfter = loadavg()[0] ?? 0;
    const seconds = (performance.now() - begin) / 1000;
    console.log(machineText(machine, models));
    console.log(`\n${tableText(lines)}\n`);
    console.log(`${seconds.toFixed(0)} s; load after ${loadAfter.toFixed(2)} (this bench alone is 1 to 2)`);
    if (values.json) {
      const file = resolve(values.json);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(
        file,
        `${JSON.stringify({ machine, loadAfter, seconds, models, lines }, undefined, 2)}\n`,
      );
    }
    return 0;
  } finally {
    await bench.close();
  }
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
