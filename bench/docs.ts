/**
 * `node bench/docs.ts`: writes the generated parts of the pages on performance from bench/results. What stands between
 * the markers of a page is always replaced, so that no page shows a number that no run measured.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { judgeCurve, type Metric } from './growth/fit.ts';
import type { CurveRun } from './growth/run.ts';
import { type Line, machineText, type Report, rowsTable, tableText } from './report.ts';
import { targetsText } from './targets.ts';

const file = (path: string) => new URL(`../${path}`, import.meta.url);
const PAGES = 'docs/explanation';

/** @returns the content of each file, by its path */
export async function renderDocs(): Promise<Readonly<Record<string, string>>> {
  const read = (path: string) => readFile(file(path), 'utf8');
  const report = JSON.parse(await read('bench/results/run.json')) as Report;
  const growth = JSON.parse(await read('bench/results/growth.json')) as Record<string, CurveRun>;
  const [performancePage, scalingPage] = [`${PAGES}/performance.md`, `${PAGES}/scaling.md`];
  return {
    [performancePage]: withBlocks(await read(performancePage), {
      'bench:machine': `\`\`\`\n${machineText(report)}\n\`\`\``,
      'bench:targets': targetsText(report.lines),
      'bench:peers': tableText(report.lines.filter(isAgainstPeer)),
    }),
    [scalingPage]: withBlocks(await read(scalingPage), { 'bench:growth': growthText(Object.values(growth)) }),
  };
}

/** HTTP with 32 connections only. */
function isAgainstPeer({ name }: Line): boolean {
  return /(gateway|function|stack) against (?!bare)/.test(name) && !/, [18] connections?$/.test(name);
}

/** @param blocks by the names of their markers, `<!-- name -->` and `<!-- /name -->`. @throws when one is missing */
export function withBlocks(page: string, blocks: Readonly<Record<string, string>>): string {
  return Object.entries(blocks).reduce((text, [name, block]) => {
    const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
    const [from, to] = [text.indexOf(begin), text.indexOf(end)];
    if (from === -1 || to < from) throw new Error(`the page has no ${begin} with ${end} after it`);
    return `${text.slice(0, from + begin.length)}\n${block}\n${text.slice(to)}`;
  }, page);
}

/** A line for each curve: its highest exponents, its defects, and the commit that was measured. */
function growthText(runs: readonly CurveRun[]): string {
  const rows = runs.map(({ curve, machine }) => {
    const judged = judgeCurve(curve);
    const highest = (isWanted: (metric: Metric) => boolean) => {
      const exponents = judged.filter(({ metric }) => isWanted(metric)).map(({ exponent }) => exponent);
      return exponents.length > 0 ? Math.max(...exponents).toFixed(2) : '';
    };
    const sizes = curve.series.flatMap(({ points }) => points.map(({ x }) => x)).toSorted((a, b) => a - b);
    const range = [sizes[0], sizes.at(-1)].map((x) => x?.toLocaleString('en-US')).join(' to ');
    const over = judged
      .filter(({ isDefect }) => isDefect)
      .map(({ series, metric }) => `${series}: ${metric.label}`);
    const exponents = [
      highest(({ unit, key }) => unit === 'ms' && key !== 'cpuMs'),
      highest(({ key }) => key === 'cpuMs'),
      highest(({ key }) => key === 'peakBytes'),
    ];
    return [
      curve.xLabel,
      range,
      ...exponents,
      over.join('; ') || 'none',
      machine.commit.replace(/ with .*/, ' and changes'),
    ];
  });
  const head = ['by', 'sizes', 'time', 'processor time', 'peak memory', 'over its limit', 'commit'];
  return rowsTable(head, new Set([2, 3, 4]), rows);
}

if (import.meta.main) {
  for (const [path, content] of Object.entries(await renderDocs())) await writeFile(file(path), content);
}
