/**
 * In: what was measured, computed and recommended. Out: the tables, the plot and the sentences a person reads.
 * Trap: a number that was computed must not look like one that was measured; `*` and `?` say which is which.
 */
import type { Architecture } from '../../infra/prices.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import { bytesText } from '../dlq/text.ts';
import { linesOf } from './config.ts';
import type { BatchResult, ExcludedSetting, PredictResult, SettingResult } from './cost.ts';
import { type Measurement, SMALLER_FAILED } from './measure.ts';
import { bar, type Chart } from './plot.ts';
import { type ModelFacts, pointName, threadsText } from './points.ts';
import type { Recommendation } from './recommend.ts';

export interface Report {
  readonly name: string;
  readonly modelBytes: number;
  readonly machine: { readonly cpu: string; readonly cores: number };
  readonly measurement: Measurement;
  /** One for each memory setting, with its best thread count. */
  readonly shown: readonly SettingResult[];
  readonly excluded: readonly ExcludedSetting[];
  readonly arch: Architecture;
  readonly overheadMs: number;
  readonly recommendations: readonly Recommendation[];
  readonly notes: readonly string[];
}

const BAR_WIDTH = 24;
const MARKS = { measured: '', scaled: '*', 'fewer cores': '?' } as const;

export function reportText(report: Report): string {
  return [
    ...headLines(report),
    '',
    ...measuredLines(report.measurement),
    ...matrixLines(report, `dollars per million predictions, ${report.arch}`, (result) =>
      threeDigits(result.costs[report.arch].total),
    ),
    ...matrixLines(report, 'ms of a call', (result) => threeDigits(result.ms)),
    ...legendLines(report),
    ...plotLines(report),
    ...report.recommendations.flatMap((recommendation) => [
      '',
      ...recommendationLines(recommendation, report.arch),
    ]),
    ...(report.notes.length > 0 ? ['', ...report.notes.map((note) => `note: ${note}`)] : []),
  ].join('\n');
}

function headLines({ name, modelBytes, machine, measurement }: Report): string[] {
  const { facts, rounds, tookMs, points } = measurement;
  const inputs = facts.inputs.map(
    ({ name: input, dtype }, i) => `${input} ${dtype} ${formatShape(facts.shapes[i] ?? [])}`,
  );
  const sizes = `a message is ${bytesText(facts.messageBytes)}, a request ${bytesText(facts.requestBytes)}`;
  return [
    `model    ${name}, ${bytesText(modelBytes)}; ${runsText(facts)}`,
    `inputs   ${inputs.join(', ')}; ${DATA_TEXTS[facts.data]}; ${sizes}`,
    `machine  ${machine.cpu}, ${machine.cores} cores; ${points.length} points, ${rounds} ${rounds === 1 ? 'round' : 'rounds'} in ${Math.round(tookMs / 1000)} s`,
  ];
}

const DATA_TEXTS = { random: 'random numbers', zeros: 'zeros', given: 'from --data' } as const;

function runsText({ shared, fixedRows }: ModelFacts): string {
  if (!shared) return 'records run one by one';
  return fixedRows === null ? 'records share a run' : `the file fixes a run to ${rowsText(fixedRows)}`;
}

function measuredLines({ points, skipped, batchLimit }: Measurement): string[] {
  const sorted = points.toSorted(
    (a, b) => b.door.localeCompare(a.door) || a.records - b.records || a.threads - b.threads,
  );
  const rows = sorted.map(({ model, call, neededMB, ...point }) => [
    pointName(point),
    threeDigits(model.median),
    threeDigits(call.median),
    `${threeDigits(call.low)} .. ${threeDigits(call.high)}`,
    threeDigits(call.p99),
    count((point.records * 1000) / call.median),
    `${neededMB} MB`,
  ]);
  return [
    ...table([['measured', 'model ms', 'call ms', 'spread', 'p99', 'records/s', 'memory'], ...rows]),
    ...skippedLines(skipped),
    ...(batchLimit === undefined ? [] : [`batches end there: ${batchLimit}`]),
    '',
  ];
}

/** One line for each reason. */
function skippedLines(skipped: Measurement['skipped']): string[] {
  const reasons = Map.groupBy(skipped, ({ reason }) => reason);
  const rest = reasons.get(SMALLER_FAILED) ?? [];
  reasons.delete(SMALLER_FAILED);
  return [...reasons].map(([reason, points]) => {
    const isFirst = points.some(({ threads }) => rest.some((other) => other.threads === threads));
    return `not measured: ${points.map(pointName).join('; ')}${isFirst ? ' (and larger)' : ''}: ${reason}`;
  });
}

/** One line for predict and each batch, one column for each memory setting. */
function matrixLines(
  { shown }: Report,
  title: string,
  cell: (result: PredictResult | BatchResult) => string,
): string[] {
  if (shown.length === 0) return [];
  const sizes = [...new Set(shown.flatMap(({ batches }) => batches.map(({ records }) => records)))].toSorted(
    (a, b) => a - b,
  );
  const heads = shown.map(({ setting }) => `${setting.memoryMB} MB${MARKS[setting.basis]}`);
  const of = (result: PredictResult | BatchResult | undefined) => (result ? cell(result) : '-');
  const rows = [
    ['predict', ...shown.map(({ predict }) => of(predict))],
    ...sizes.map((size) => [
      `batch of ${size}`,
      ...shown.map(({ batches }) => of(batches.find(({ records }) => records === size))),
    ]),
  ];
  return [...table([[title, ...heads], ...rows]), ''];
}

function legendLines({ shown, excluded, overheadMs }: Report): string[] {
  const bases = shown.map(({ setting }) => setting.basis);
  return [
    `each call with ${overheadMs} ms for Lambda and Redis (--overhead)`,
    ...(bases.includes('scaled')
      ? ['* below one vCPU: computed, the time of one thread divided by the share']
      : []),
    ...(bases.includes('fewer cores')
      ? ['? run with fewer cores than Lambda gives: it takes at most this long']
      : []),
    ...excluded.map(({ memoryMB, reason }) => `${memoryMB} MB: ${reason}`),
  ];
}

function plotLines({ shown, recommendations, arch }: Report): string[] {
  const [first] = recommendations;
  const result = shown.find(({ setting }) => setting.memoryMB === first?.setting.memoryMB);
  if (!result || result.batches.length < 2) return [];
  const { setting, batches } = result;
  const fastest = Math.max(...batches.map(({ perSecond }) => perSecond));
  const dearest = Math.max(...batches.map(({ costs }) => costs[arch].total));
  const rows = batches.map(({ records, perSecond, costs }) => [
    String(records),
    count(perSecond),
    bar(perSecond / fastest, BAR_WIDTH),
    threeDigits(costs[arch].total),
    bar(costs[arch].total / dearest, BAR_WIDTH),
  ]);
  const title = `${setting.memoryMB} MB, ${threadsText(setting.threads)}`;
  return [
    '',
    title,
    ...table([['records', '/s', '', '$/million', ''], ...rows], ['right', 'right', 'left', 'right', 'left']),
  ];
}

function recommendationLines(
  { aim, setting, predict, batch, config, reasons }: Recommendation,
  arch: Architecture,
): string[] {
  const title = aim === 'cheapest' ? 'Cheapest' : 'Lowest latency';
  const other = arch === 'arm64' ? 'x86_64' : 'arm64';
  const line = (name: string, what: string, result: PredictResult | BatchResult) =>
    `  ${name.padEnd(8)} ${what}${threeDigits(result.ms)} ms (p99 ${threeDigits(result.p99Ms)}), $${threeDigits(result.costs[arch].total)} a million; ${other}, if as fast: $${threeDigits(result.costs[other].total)}`;
  return [
    `${title}: ${setting.memoryMB} MB, ${threadsText(setting.threads)}`,
    ...(predict ? [line('predict', '', predict)] : []),
    ...(batch ? [line('batch', batch.records === 1 ? '' : `${batch.records} records in `, batch)] : []),
    ...reasons.map((reason) => `  why      ${reason}`),
    ...linesOf(config)
      .split('\n')
      .map((text) => `    ${text}`),
  ];
}

export function rowsText(rows: number): string {
  return rows === 1 ? 'one row' : `${rows} rows`;
}

/** Throughput by threads as measured, cost by memory. */
export function chartsOf({ measurement, shown, arch }: Report): Chart[] {
  const batches = measurement.points.filter(({ door }) => door === 'batch');
  const byThreads = [...Map.groupBy(batches, ({ threads }) => threads)];
  return [
    {
      title: 'records a second, as measured here',
      curves: byThreads.map(([threads, points]) => ({
        name: threadsText(threads),
        points: points.map(({ records, call }) => [records, (records * 1000) / call.median] as const),
      })),
    },
    {
      title: `dollars per million records, ${arch}`,
      curves: shown
        .filter((result) => result.batches.length > 0)
        .map((result) => ({
          name: `${result.setting.memoryMB} MB${MARKS[result.setting.basis]}`,
          points: result.batches.map(({ records, costs }) => [records, costs[arch].total] as const),
        })),
    },
  ];
}

type Side = 'left' | 'right';

/** The first column to the left, numbers to the right. */
function table(rows: readonly (readonly string[])[], sides: readonly Side[] = ['left']): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] as number;
        return (sides[column] ?? 'right') === 'left' ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
}

/** Three digits, at most three of them behind the point. */
function threeDigits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(value >= 1 ? 2 : 3);
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}
