/**
 * Prints the document of `tune`: one table, the recommended settings with their reasons, and notes. A cost that was
 * computed rather than measured is marked with `*` or `?`.
 */

import { elementAt } from '../../lib/contract/present.ts';
import type { Architecture } from '../../lib/contract/prices.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import { bytesText } from '../dlq/text.ts';
import { linesOf } from './config.ts';
import type { CallResult } from './cost.ts';
import { rowsText, type TuneDocument } from './document.ts';
import { SMALLER_FAILED } from './measure.ts';
import { type Point, pointName, threadsText } from './points.ts';
import type { Recommendation } from './recommend.ts';

const MARKS = { measured: '', scaled: '*', 'fewer cores': '?' } as const;

export function reportText(document: TuneDocument): string {
  const { recommendations, notes, method } = document;
  return [
    ...headLines(document),
    '',
    ...table(tableRows(document)),
    ...legendLines(document),
    ...recommendations.flatMap((each) => ['', ...recommendationLines(each, method.architecture)]),
    ...(notes.length > 0 ? ['', ...notes.map((note) => `note: ${note}`)] : []),
  ].join('\n');
}

function headLines({ model, machine, method, points }: TuneDocument): string[] {
  const { shared, fixedRows, inputs, shapes, data, messageBytes, requestBytes } = model;
  const together =
    fixedRows === null ? 'records share a run' : `the file fixes a run to ${rowsText(fixedRows)}`;
  const texts = inputs.map(({ name, dtype }, i) => `${name} ${dtype} ${formatShape(shapes[i] ?? [])}`);
  const source = { random: 'random numbers', zeros: 'zeros', given: 'from --data' }[data];
  const sizes = `a message is ${bytesText(messageBytes)}, a request ${bytesText(requestBytes)}`;
  const rounds = `${method.rounds} ${method.rounds === 1 ? 'round' : 'rounds'}`;
  return [
    `model    ${model.path}, ${bytesText(model.bytes)}; ${shared ? together : 'records run one by one'}`,
    `inputs   ${texts.join(', ')}; ${source}; ${sizes}`,
    `machine  ${machine.cpu}, ${machine.cores} cores; ${points.length} points, ${rounds} in ${Math.round(method.tookMs / 1000)} s`,
  ];
}

/** A row per point, with its cost at each memory setting that this machine can judge. */
function tableRows({ points, settings, method }: TuneDocument): string[][] {
  const known = settings.filter(({ setting }) => setting.basis !== 'fewer cores');
  const byMemory = Map.groupBy(known.length > 0 ? known : settings, ({ setting }) => setting.memoryMB);
  const memories = [...byMemory.values()];
  const heads = memories.flatMap(([one]) => {
    return one ? [`$ ${one.setting.memoryMB} MB${MARKS[one.setting.basis]}`] : [];
  });
  const order = (a: Point, b: Point) =>
    b.endpoint.localeCompare(a.endpoint) || a.records - b.records || a.threads - b.threads;
  const rows = points.toSorted(order).map(({ model, call, neededMB, ...point }) => {
    const costs = memories.map((group) => {
      const { predict, batches = [] } = group.find(({ setting }) => setting.threads === point.threads) ?? {};
      const batch = batches.find(({ records }) => records === point.records);
      const result = point.endpoint === 'predict' ? predict : batch;
      return result ? threeDigits(result.costs[method.architecture].total) : '-';
    });
    const perSecond = Math.round((point.records * 1000) / call.median).toLocaleString('en');
    const times = [model.median, call.median, call.p99].map(threeDigits);
    return [pointName(point), ...times, perSecond, `${neededMB} MB`, ...costs];
  });
  return [['measured', 'model ms', 'call ms', 'p99', 'records/s', 'memory', ...heads], ...rows];
}

/** Aligns the first column left and numbers right. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, i) =>
        i === 0 ? cell.padEnd(elementAt(widths, i, 'widths')) : cell.padStart(elementAt(widths, i, 'widths')),
      )
      .join('  '),
  );
}

function legendLines({ settings, excluded, method, skipped }: TuneDocument): string[] {
  const bases = settings.map(({ setting }) => setting.basis);
  const reasons = Map.groupBy(skipped, ({ reason }) => reason);
  // Points after a failed one are only listed as "and larger".
  const rest = reasons.get(SMALLER_FAILED) ?? [];
  reasons.delete(SMALLER_FAILED);
  const skippedLines = [...reasons].map(([reason, points]) => {
    const isFirst = points.some(({ threads }) => rest.some((other) => other.threads === threads));
    return `not measured: ${points.map(pointName).join('; ')}${isFirst ? ' (and larger)' : ''}: ${reason}`;
  });
  return [
    ...skippedLines,
    ...(method.batchLimit === null ? [] : [`batches end there: ${method.batchLimit}`]),
    `$: a million predictions, ${method.architecture}, each call with ${method.overheadMs} ms for Lambda and Redis (--overhead)`,
    ...(bases.includes('scaled')
      ? ['* below one vCPU: computed, the time of one thread divided by the share']
      : []),
    ...(bases.includes('fewer cores')
      ? ['? run with fewer cores than Lambda gives: costs at most this much']
      : []),
    ...excluded.map(({ memoryMB, reason }) => `${memoryMB} MB: ${reason}`),
  ];
}

function recommendationLines(recommendation: Recommendation, arch: Architecture): string[] {
  const { aim, setting, predict, batch, config, reasons } = recommendation;
  const other = arch === 'arm64' ? 'x86_64' : 'arm64';
  const line = (name: string, { ms, p99Ms, costs }: CallResult) => {
    const dollars = `$${threeDigits(costs[arch].total)} a million; ${other}, if as fast: $${threeDigits(costs[other].total)}`;
    return `  ${name}${threeDigits(ms)} ms (p99 ${threeDigits(p99Ms)}), ${dollars}`;
  };
  const records = batch && batch.records > 1 ? `${batch.records} records in ` : '';
  return [
    `${aim === 'cheapest' ? 'Cheapest' : 'Lowest latency'}: ${setting.memoryMB} MB, ${threadsText(setting.threads)}`,
    ...(predict ? [line('predict  ', predict)] : []),
    ...(batch ? [line(`batch    ${records}`, batch)] : []),
    ...reasons.map((reason) => `  why      ${reason}`),
    ...linesOf(config).replaceAll(/^/gm, '    ').split('\n'),
  ];
}

/** Three significant digits, with at most three decimals. */
function threeDigits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(value >= 1 ? 2 : 3);
}
