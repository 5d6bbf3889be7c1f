/**
 * In: measured curves. Out: their tables between the markers of docs/growth.md, a picture for each, and all as JSON.
 * Trap: a run of some curves leaves the others as they are; numbers without the run they come from say nothing, so each
 * curve carries machine, commit and command of its own.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { withBlock } from '../markers.ts';
import { type Machine, rowsTable, short } from '../report.ts';
import type { Curve, Metric } from './curve.ts';
import { type Judged, judgeCurve, type MeasuredCurve, type MeasuredPoint } from './measured.ts';
import { plotSvg } from './plot.ts';

export interface CurveRun {
  readonly machine: Machine;
  readonly loadAfter: number;
  readonly curve: MeasuredCurve;
}

/** @param page docs/growth.md; pictures and JSON go into the folder of its name beside it */
export async function writeDocument(page: string, runs: readonly CurveRun[]): Promise<void> {
  const folder = page.replace(/\.md$/, '');
  await mkdir(folder, { recursive: true });
  const json = join(folder, 'growth.json');
  const before = await readRuns(json);
  let text = await readFile(page, 'utf8');
  for (const run of runs) {
    before[run.curve.name] = run;
    const pictures = await writePictures(folder, run.curve);
    const names = pictures.map((name) => join(folder.slice(dirname(page).length + 1), name));
    text = withBlock(text, `growth:${run.curve.name}`, blockOf(run, names));
  }
  text = withBlock(text, 'growth:summary', summaryOf(Object.values(before)));
  await writeFile(json, `${JSON.stringify(before, undefined, 2)}\n`);
  await writeFile(page, text);
}

/** The document anew of the numbers it has, judged as the curves are judged now. */
export async function renderDocument(page: string, curves: readonly Curve[]): Promise<void> {
  const runs = Object.values(await readRuns(join(page.replace(/\.md$/, ''), 'growth.json')));
  const judgedNow = runs.flatMap((run) => {
    const now = curves.find(({ name }) => name === run.curve.name);
    return now ? [{ ...run, curve: { ...run.curve, metrics: now.metrics } }] : [];
  });
  await writeDocument(page, judgedNow);
}

async function readRuns(path: string): Promise<Record<string, CurveRun>> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}';
    throw error;
  });
  return JSON.parse(text) as Record<string, CurveRun>;
}

/** @returns their names */
async function writePictures(folder: string, curve: MeasuredCurve): Promise<string[]> {
  const names: string[] = [];
  for (const metric of curve.metrics.filter(({ picture }) => picture !== undefined)) {
    const lines = curve.series.map(({ name, points }) => ({
      name,
      points: points.flatMap(({ x, values }) => {
        const value = values[metric.key];
        const scale = metric.unit === 'bytes' ? 1e-6 : 1;
        return value
          ? [{ x, y: value.median * scale, low: value.low * scale, high: value.high * scale }]
          : [];
      }),
    }));
    // Where a system does not tell its peak, or everything is too small to be seen, there is nothing to draw.
    if (!lines.some(({ points }) => points.some(({ x, y }) => x > 0 && y > 0))) continue;
    const unit = metric.unit === 'bytes' ? 'MB' : metric.unit;
    const title = `${curve.about}: ${metric.label}`;
    const name = `${curve.name}-${metric.picture}.svg`;
    const svg = plotSvg({ title, xLabel: curve.xLabel, yLabel: `${metric.label}, ${unit}`, lines });
    await writeFile(join(folder, name), svg);
    names.push(name);
  }
  return names;
}

function blockOf({ machine, loadAfter, curve }: CurveRun, pictures: readonly string[]): string {
  return [
    ...pictures.map((path) => `![${curve.about}](${path})\n`),
    pointsTable(curve),
    '',
    fitTable(judgeCurve(curve)),
    '',
    runLine(machine, loadAfter, curve),
  ].join('\n');
}

function runLine(machine: Machine, loadAfter: number, { repeats, seconds }: MeasuredCurve): string {
  const { cpu, cores, memoryGiB, node, onnxruntime, commit, command, startedAt, loadBefore } = machine;
  const load = `load ${loadBefore.toFixed(1)} before, ${loadAfter.toFixed(1)} after`;
  const how = `${repeats} repeats, ${seconds.toFixed(0)} s, ${load}`;
  return `\`${command}\`, ${startedAt}: ${cpu}, ${cores} cores, ${memoryGiB} GiB; Node ${node}, onnxruntime-node ${onnxruntime}, commit ${commit}; ${how}.`;
}

/** Medians, with the lowest and the highest of what has a picture. */
export function pointsTable({ series, metrics, xLabel }: MeasuredCurve): string {
  const shown = metrics.filter(({ key }) =>
    series.some(({ points }) => points.some(({ values }) => values[key])),
  );
  const many = series.length > 1;
  const head = [...(many ? ['what'] : []), xLabel, ...shown.map(({ label }) => label)];
  const rows = series.flatMap(({ name, points }) =>
    points.map((point) => [
      ...(many ? [name] : []),
      point.x.toLocaleString('en-US'),
      ...cellsOf(point, shown),
    ]),
  );
  return rowsTable(head, new Set(head.keys().drop(many ? 1 : 0)), rows);
}

function cellsOf({ values, skipped }: MeasuredPoint, metrics: readonly Metric[]): string[] {
  if (skipped) return metrics.map((_, i) => (i === 0 ? `not measured: ${skipped}` : ''));
  return metrics.map((metric) => {
    const value = values[metric.key];
    if (!value) return '';
    const text = valueText(value.median, metric.unit);
    if (metric.picture !== 'time' || value.high === value.low) return text;
    return `${text} (${numberText(value.low, metric.unit)} .. ${numberText(value.high, metric.unit)})`;
  });
}

function valueText(value: number, unit: Metric['unit']): string {
  return `${numberText(value, unit)} ${unitText(value, unit)}`.trim();
}

function unitText(value: number, unit: Metric['unit']): string {
  if (unit !== 'bytes') return unit;
  return value < 1e4 ? 'bytes' : 'MB';
}

function numberText(value: number, unit: Metric['unit']): string {
  return short(unit === 'bytes' && value >= 1e4 ? value / 1e6 : value);
}

export function fitTable(judged: readonly Judged[]): string {
  const rows = judged.map(({ series, metric, exponent, from, to, lastStep, verdict, isDefect }) => [
    series,
    metric.label,
    `${from.toLocaleString('en-US')} to ${to.toLocaleString('en-US')}`,
    exponent.toFixed(2),
    lastStep.toFixed(2),
    `<= ${metric.atMost}`,
    verdictText(exponent > (metric.atMost ?? 0), isDefect, verdict),
  ]);
  const head = ['what', 'of it', 'fitted', 'exponent', 'last step', 'limit', 'verdict'];
  return rowsTable(head, new Set([2, 3, 4, 5]), rows);
}

function verdictText(isOver: boolean, isDefect: boolean, verdict: string): string {
  if (isDefect) return `**${verdict}**`;
  return isOver ? `${verdict}, not at its end` : verdict;
}

/** One line a curve: its worst exponents, and whether anything is over its limit. */
function summaryOf(runs: readonly CurveRun[]): string {
  const rows = runs.map(({ curve }) => {
    const judged = judgeCurve(curve);
    const worst = (key: string) => {
      const exponents = judged.filter(({ metric }) => metric.key === key).map(({ exponent }) => exponent);
      return exponents.length > 0 ? Math.max(...exponents).toFixed(2) : '';
    };
    const defects = judged.filter(({ isDefect }) => isDefect);
    const told = defects.map(
      ({ series, metric, exponent }) => `${series}, ${metric.label}: ${exponent.toFixed(2)}`,
    );
    return [curve.xLabel, worst('ms'), worst('cpuMs'), worst('peakBytes'), told.join('; ') || 'none'];
  });
  const head = ['by', 'time', 'processor time', 'peak memory', 'over its limit'];
  return rowsTable(head, new Set([1, 2, 3]), rows);
}
