/**
 * `node bench/docs.ts`: writes the generated parts of the pages on performance from bench/results. What stands between
 * the markers of a page is always replaced, so that no page shows a number that no run measured.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { judgeCurve, type Metric } from './growth/fit.ts';
import type { CurveRun } from './growth/run.ts';
import { coldPicture, throughputPicture } from './pictures.ts';
import { type Line, machineText, type Report, type Row, rowsTable, short, spreadCells } from './report.ts';
import { targetsText } from './targets.ts';

const file = (path: string) => new URL(`../${path}`, import.meta.url);
const PAGES = 'docs/explanation';

/** @returns the content of each file, by its path */
export async function renderDocs(): Promise<Readonly<Record<string, string>>> {
  const read = (path: string) => readFile(file(path), 'utf8');
  const report: Report = JSON.parse(await read('bench/results/run.json'));
  const notices: Report = JSON.parse(await read('bench/results/notify.json'));
  const named: Report = JSON.parse(await read('bench/results/models.json'));
  const growth: Record<string, CurveRun> = JSON.parse(await read('bench/results/growth.json'));
  const [performancePage, scalingPage, costsPage, modelsPage] = [
    `${PAGES}/performance.md`,
    `${PAGES}/scaling.md`,
    `${PAGES}/costs.md`,
    'docs/how-to/serve-many-models.md',
  ];
  return {
    [`${PAGES}/cold-start.svg`]: coldPicture(report.lines),
    [`${PAGES}/throughput.svg`]: throughputPicture(report.lines),
    [performancePage]: withBlocks(await read(performancePage), {
      'bench:machine': `\`\`\`\n${machineText({ ...report, models: [], peers: {} })}\n\`\`\``,
      'bench:lambda': lambdaText(report.lines),
      'bench:targets': targetsText(report.lines, true),
      'bench:peers': peersText(report.lines),
    }),
    [scalingPage]: withBlocks(await read(scalingPage), { 'bench:growth': growthText(Object.values(growth)) }),
    [costsPage]: withBlocks(await read(costsPage), { 'bench:notify': noticesText(notices) }),
    [modelsPage]: withBlocks(await read(modelsPage), { 'bench:models': modelsText(named) }),
  };
}

/** HTTP with 32 connections only. */
function peersText(lines: readonly Line[]): string {
  const rows = lines.flatMap((line) => {
    const isPeer =
      /(gateway|function|stack) against (?!bare)/.test(line.name) && !/, [18] connections?$/.test(line.name);
    if (!isPeer || 'skipped' in line) return [];
    const { scenario, value, unit, raw = 0, ours = 0, baseUnit } = line;
    const name = line.name + (scenario === 'server' ? ', highest rate within 50 ms' : '');
    return [[name, `${short(raw)} ${baseUnit}`, short(ours), ...spreadCells(value, unit)]];
  });
  return rowsTable(
    ['case', 'theirs', 'ours', 'ours / theirs', 'lowest .. highest'],
    new Set([1, 2, 3]),
    rows,
  );
}

function modelsText({ lines, machine }: Report): string {
  const cells = lines.flatMap((line) => {
    if ('skipped' in line) return [];
    const { name, metric, raw = 0, ours = 0, baseUnit = '', value, unit } = line;
    return [[`${name}: ${metric}`, `${short(raw)} ${baseUnit}`, short(ours), ...spreadCells(value, unit)]];
  });
  const head = ['what', 'compared with', 'ours', 'ratio', 'lowest .. highest'];
  return `${rowsTable(head, new Set([1, 2, 3]), cells)}\n\n${machineLine(machine)}`;
}

function machineLine({ cpu, startedAt, loadBefore }: Report['machine']): string {
  return `On ${cpu}, ${startedAt}, with a load of ${short(loadBefore)} of other work.`;
}

/** A line for each size of a chunk, below the machine of their own run. */
function noticesText({ lines, machine }: Report): string {
  const rows = lines.filter((line): line is Row => !('skipped' in line));
  const names = [...new Set(rows.map(({ name }) => name))];
  const cells = names.map((name) => {
    const of = (metric: string) => {
      const row = rows.find((each) => each.name === name && each.metric.startsWith(metric));
      return row ? `${short(row.value.median)} ${row.unit}`.trim() : '';
    };
    const off = rows.find((each) => each.name === name && each.metric.startsWith('objects'))?.raw ?? 0;
    return [name, short(off), of('objects'), of('added processor'), of('dollars')];
  });
  const head = [
    'records',
    'calls without a target',
    'objects a chunk',
    'added processor time a record',
    'a million',
  ];
  return `${rowsTable(head, new Set([1, 2, 3, 4]), cells)}\n\n${machineLine(machine)}`;
}

const LAMBDA = [
  'spawn to first answer',
  'warm p50',
  'memory',
  'a million, cost with one vCPU',
  'a million, cost with the least memory',
];

/** A line for each function that was asked again when it was warm. */
function lambdaText(lines: readonly Line[]): string {
  const rows = lines.filter((line): line is Row => line.scenario === 'cold' && !('skipped' in line));
  const cells = (name: string) =>
    LAMBDA.map((metric) => {
      const row = rows.find((each) => each.name === name && each.metric === metric);
      return row ? `${short(row.value.median)} ${row.unit}` : '';
    });
  const names = rows.filter(({ metric }) => metric === 'memory').map(({ name }) => name);
  if (names.length === 0) return 'The run in bench/results has no such rows yet.';
  const head = [
    'function',
    'first answer',
    'warm, p50',
    'peak memory',
    'a million, one vCPU',
    'a million, least memory',
  ];
  return rowsTable(
    head,
    new Set([1, 2, 3, 4, 5]),
    names.map((name) => [name, ...cells(name)]),
  );
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
  const head = ['by', 'sizes', 'time', 'processor time', 'memory', 'over its limit', 'commit'];
  return rowsTable(head, new Set([2, 3, 4]), rows);
}

if (import.meta.main) {
  for (const [path, content] of Object.entries(await renderDocs())) await writeFile(file(path), content);
}
