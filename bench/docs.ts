/**
 * `node bench/docs.ts <run.json>`, and the end of `npm run bench -- --docs`. In: a report. Out: docs/benchmarks/ with its
 * JSON and pictures, and the tables of docs/benchmarks.md between their markers.
 * Trap: a number that was typed by hand is one that no run stands for; so what is between markers is always replaced.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chartsOf } from './charts.ts';
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
    // A picture of an older run beside newer tables would say something else than they do.
    if (file.endsWith('.svg') && !names.has(file)) await rm(join(folder, file));
  }
  for (const chart of charts) await writeFile(join(folder, `${chart.name}.svg`), svgOf(chart));
  const page = join(docs, 'benchmarks.md');
  const sections = new Map([
    ['machine', `\`\`\`\n${machineText(report)}\n\`\`\``],
    ['pictures', charts.map(({ name, title }) => `![${title}](benchmarks/${name}.svg)`).join('\n\n')],
    ['targets', targetsText(report.lines)],
    ['table', `${tableText(report.lines)}\n\nThe same as JSON: [run.json](benchmarks/run.json).`],
  ]);
  await writeFile(page, replaceSections(await readFile(page, 'utf8'), sections));
}

/** What stands between `<!-- bench:name -->` and `<!-- /bench:name -->`. @throws when a marker is missing */
export function replaceSections(page: string, sections: ReadonlyMap<string, string>): string {
  let text = page;
  for (const [name, content] of sections) {
    const [begin, end] = [`<!-- bench:${name} -->`, `<!-- /bench:${name} -->`];
    const from = text.indexOf(begin);
    const to = text.indexOf(end);
    if (from === -1 || to < from) throw new Error(`docs/benchmarks.md has no ${begin} with ${end} after it`);
    text = `${text.slice(0, from + begin.length)}\n${content}\n${text.slice(to)}`;
  }
  return text;
}

const [file] = process.argv.slice(2);
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (file) await writeDocs(JSON.parse(await readFile(file, 'utf8')) as Report);
  else console.error('usage: node bench/docs.ts <run.json>');
}
