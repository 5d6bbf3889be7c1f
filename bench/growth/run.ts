/**
 * `npm run bench:growth [-- <curve>... --quick --no-write | --render]`. In: names of curves. Out: tables on the terminal; without
 * --quick also docs/growth.md with its pictures.
 * Trap: a point that fails ends the run with exit code 1: no curve without all of its checks.
 */
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../report.ts';
import { CURVES } from './curves.ts';
import { type CurveRun, fitTable, pointsTable, renderDocument, writeDocument } from './document.ts';
import { Growth } from './growth.ts';
import { judgeCurve, measureCurve } from './measured.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = fileURLToPath(new URL('../../docs/growth.md', import.meta.url));

const USAGE = `Usage: npm run bench:growth -- [curve...] [--quick] [--no-write] | --render

${CURVES.map(({ name, about }) => `  ${name.padEnd(9)}${about}`).join('\n')}

Without a name all of them, in less than 15 minutes. --quick takes smaller sizes once, in 2 minutes, and writes nothing;
otherwise docs/growth.md and its pictures get the new numbers, unless --no-write. --render measures nothing: it writes
them anew of docs/growth/growth.json. docs/growth.md says how to read them.`;

/** One line that is rewritten; where there is no terminal, nothing between the curves. */
function progress(name: string, begin: number) {
  return (done: number, total: number, what: string) => {
    if (!process.stderr.isTTY) return;
    const seconds = ((performance.now() - begin) / 1000).toFixed(0);
    process.stderr.write(`\r\u001b[K${name} ${done}/${total}, ${seconds} s: ${what}`);
  };
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      'no-write': { type: 'boolean', default: false },
      render: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  const unknown = positionals.filter((name) => !CURVES.some((curve) => curve.name === name));
  if (values.help || unknown.length > 0) {
    console.error(unknown.length > 0 ? `no curve ${unknown.join(', ')}\n\n${USAGE}` : USAGE);
    return unknown.length > 0 ? 2 : 0;
  }
  if (values.render) {
    await renderDocument(PAGE, CURVES);
    return 0;
  }
  const options = [...positionals, ...(values.quick ? ['--quick'] : [])];
  const command = ['npm run bench:growth', ...(options.length > 0 ? ['--', ...options] : [])].join(' ');
  const begin = performance.now();
  const runs: CurveRun[] = [];
  for (const curve of CURVES.filter(({ name }) => positionals.length === 0 || positionals.includes(name))) {
    const machine = describeMachine(ROOT, command);
    // What a curve started ends with it, so that none is measured beside the servers of another.
    const growth = await Growth.open();
    try {
      const onPoint = progress(curve.name, begin);
      const measured = await measureCurve(growth, curve, { quick: values.quick, onPoint });
      const run = { machine, loadAfter: loadavg()[0] ?? 0, curve: measured };
      runs.push(run);
      // One by one, so that a curve that fails does not take those before it along.
      if (!values.quick && !values['no-write']) await writeDocument(PAGE, [run]);
      if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
      console.log(`\n${curve.name}: ${curve.about} (${measured.seconds.toFixed(0)} s)\n`);
      console.log(`${pointsTable(measured)}\n\n${fitTable(judgeCurve(measured))}`);
    } finally {
      await growth.close();
    }
  }
  const defects = runs.flatMap(({ curve }) => judgeCurve(curve).filter(({ isDefect }) => isDefect));
  console.log(`\n${((performance.now() - begin) / 1000).toFixed(0)} s; ${defects.length} over their limit`);
  return 0;
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
