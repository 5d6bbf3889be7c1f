/** The rows of a run that moved since another one of the same machine. */
import type { Spread } from '../measure.ts';
import { type Report, type Row, rowsTable, short, spreadCells } from '../report.ts';

export interface Moved {
  readonly row: Pick<Row, 'scenario' | 'name' | 'metric' | 'unit'>;
  readonly before: Spread;
  readonly now: Spread;
}

/** Less is not worth a search, even if no repeat of one run was as high as any of the other. */
const LEAST_CHANGE = 0.05;

export const keyOf = ({ scenario, name, metric, unit }: Moved['row']): string =>
  [scenario, name, metric, unit].join(' | ');

/**
 * @returns rows of both runs whose spreads have no value in common
 * @throws Error when the machines or the versions of Node or onnxruntime differ, whose effect would be taken for that of a commit
 */
export function movedRows(before: Report, now: Report): Moved[] {
  for (const part of ['cpu', 'cores', 'memoryGiB', 'node', 'onnxruntime'] as const) {
    const [was, is] = [before.machine[part], now.machine[part]];
    if (was !== is)
      throw new Error(
        `the runs cannot be compared: ${part} was ${was} and is ${is}. Name another file, in which a run of this machine is saved`,
      );
  }
  const earlier = new Map(rowsOf(before).map((row) => [keyOf(row), row.value]));
  return rowsOf(now).flatMap((row) => {
    const was = earlier.get(keyOf(row));
    return was && isApart(was, row.value) ? [{ row, before: was, now: row.value }] : [];
  });
}

export function rowsOf({ lines }: Report): Row[] {
  return lines.flatMap((line) => ('skipped' in line ? [] : [line]));
}

function isApart(a: Spread, b: Spread): boolean {
  if (a.low <= b.high && b.low <= a.high) return false;
  return Math.abs(b.median - a.median) >= LEAST_CHANGE * Math.abs(a.median);
}

/** @param commits the commit that moved a row, by its key */
export function movedText(moved: readonly Moved[], commits: ReadonlyMap<string, string>): string {
  const columns = [
    'scenario',
    'case',
    'what',
    'before',
    'lowest .. highest',
    'now',
    'lowest .. highest',
    '',
    'since',
  ];
  const cells = moved.map(({ row, before, now }) => [
    row.scenario,
    row.name,
    row.metric,
    ...spreadCells(before, row.unit),
    ...spreadCells(now, row.unit),
    `${short(now.median / before.median)} x`,
    commits.get(keyOf(row)) ?? '',
  ]);
  return rowsTable(columns, new Set([3, 5, 7]), cells);
}
