/**
 * `node bench/docs.ts <run.json>`, and the end of `npm run bench -- --docs`. In: a report. Out: docs/benchmarks/ with its
 * JSON and pictures, and the tables of docs/benchmarks.md between their markers.
 * Trap: a picture of an older run beside newer tables would say something else than they do; it is removed.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chartsOf } from './charts.ts';
import { withBlock } from './markers.ts';
import { svgOf } from './plot.ts';
import { machineText, type Report, tableText } from './report.ts';
import { targetsText } from './targets.ts';

const DOCS = fileURLToPath(new URL('../docs/', import.meta.url));

/** @param docs the folder with benchmarks.md */
export async function writeDocs(report: Report, docs = DOCS): Promise<void> {
  const folder = join(docs, 'benchmarks');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'run.json'), `${JSON.stringify(report, undefined, 2)}\n`);
  const charts = chartsOf(report.lines);
  const names = new Set(charts.map(({ name }) => `${name}.svg`));
  for (const file of await readdir(folder)) {
    if (file.endsWith('.svg') && !names.has(file)) await rm(join(folder, file));
  }
  for (const chart of charts) await writeFile(join(folder, `${chart.name}.svg`), svgOf(chart));
  const page = join(docs, 'benchmarks.md');
  const blocks = {
    machine: `\`\`\`\n${machineText(report)}\n\`\`\``,
    pictures: charts.map(({ name, title }) => `![${title}](benchmarks/${name}.svg)`).join('\n\n'),
    targets: targetsText(report.lines),
    table: `${tableText(report.lines)}\n\nThe same as JSON: [run.json](benchmarks/run.json).`,
  };
  let text = await readFile(page, 'utf8');
  for (const [name, block] of Object.entries(blocks)) text = withBlock(text, `bench:${name}`, block);
  await writeFile(page, text);
}

const [file] = process.argv.slice(2);
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (file) await writeDocs(JSON.parse(await readFile(file, 'utf8')) as Report);
  else console.error('usage: node bench/docs.ts <run.json>');
}
