/**
 * The lines of a run, and the table of them. A number always comes with its spread, its machine and the load on it; a row
 * that could not be measured says why and never shows a number.
 */
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { coresText } from './cores.ts';
import type { Spread } from './measure.ts';
import type { BenchModel } from './models.ts';

/** One number of a scenario. */
export interface Row {
  readonly scenario: string;
  /** The work of a measurement. */
  readonly name: string;
  /** The meaning of `value`, e.g. "added p50". */
  readonly metric: string;
  readonly unit: string;
  /** Medians in `baseUnit` of what it is compared with (raw onnxruntime, or the peer in the name), and of ours. */
  readonly raw?: number;
  readonly ours?: number;
  readonly baseUnit?: string;
  readonly value: Spread;
  readonly note?: string;
}

/** Names what was left out, and why. */
export interface Skipped {
  readonly scenario: string;
  readonly name: string;
  readonly skipped: string;
}

export type Line = Row | Skipped;

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly onnxruntime: string;
  readonly commit: string;
  readonly command: string;
  readonly startedAt: string;
  /** Runnable processes over the last minute, ours included. */
  readonly loadBefore: number;
  /** Which processes run on which core. */
  readonly pinning: string;
}

/** All that is needed to judge a run, and to draw and print it again. */
export interface Report {
  readonly machine: Machine;
  readonly loadAfter: number;
  readonly seconds: number;
  readonly models: readonly Pick<BenchModel, 'about' | 'bytes' | 'sha256'>[];
  /** Versions of the peers that took part. */
  readonly peers: Readonly<Record<string, string>>;
  readonly lines: readonly Line[];
}

export function describeMachine(command: string): Machine {
  const require = createRequire(import.meta.url);
  const { version } = require('onnxruntime-node/package.json') as { version: string };
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    onnxruntime: version,
    commit: commitText(),
    command,
    startedAt: new Date().toISOString(),
    loadBefore: loadavg()[0] ?? 0,
    pinning: coresText(),
  };
}

function commitText(): string {
  try {
    const cwd = new URL('..', import.meta.url);
    const git = (...args: string[]) => execFileSync('git', args, { cwd, encoding: 'utf8' }).trim();
    const changed = git('status', '--porcelain', '--', 'lib', 'functions', 'local')
      .split('\n')
      .filter(Boolean);
    const tail = changed.length > 0 ? ` with ${changed.length} changed files in lib, functions, local` : '';
    return git('rev-parse', '--short', 'HEAD') + tail;
  } catch {
    return 'no git';
  }
}

export function machineText({ machine, models, peers, seconds, loadAfter }: Report): string {
  const { cpu, cores, memoryGiB, node, onnxruntime, commit, command, startedAt, loadBefore, pinning } =
    machine;
  return [
    `machine  ${cpu}, ${cores} cores, ${memoryGiB} GiB; ${pinning}`,
    `with     Node ${node}, onnxruntime-node ${onnxruntime}, commit ${commit}`,
    `command  ${command} at ${startedAt}, ${seconds.toFixed(0)} s`,
    `load     ${loadBefore.toFixed(2)} before, ${loadAfter.toFixed(2)} after (this bench alone is 1 to 2)`,
    ...models.map(({ about, bytes, sha256 }) => `model    ${about}: ${bytes} bytes, sha256 ${sha256}`),
    ...Object.entries(peers).map(([name, versions]) => `peer     ${name}: ${versions}`),
  ].join('\n');
}

const COLUMNS = ['scenario', 'case', 'compared with', 'ours', 'what', 'median', 'lowest .. highest'];

export function tableText(lines: readonly Line[]): string {
  return rowsTable(COLUMNS, new Set([2, 3, 5]), lines.map(lineCells));
}

function lineCells(line: Line): string[] {
  if ('skipped' in line) return [line.scenario, line.name, '', '', '', '', `not measured: ${line.skipped}`];
  const { scenario, name, metric, unit, raw, ours, baseUnit = '', value, note } = line;
  const of = (number: number | undefined) =>
    number === undefined ? '' : `${short(number)} ${baseUnit}`.trim();
  return [
    scenario,
    note ? `${name} (${note})` : name,
    of(raw),
    of(ours),
    metric,
    ...spreadCells(value, unit),
  ];
}

/** The median, and lowest to highest. */
export function spreadCells({ median, low, high }: Spread, unit: string): [string, string] {
  return [`${short(median)} ${unit}`.trim(), `${short(low)} .. ${short(high)}`];
}

/** A markdown table, aligned for terminals too. @param right columns that are aligned to the right */
export function rowsTable(
  columns: readonly string[],
  right: ReadonlySet<number>,
  cells: readonly (readonly string[])[],
): string {
  const widths = columns.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const padded = (cell: string, i: number) =>
    right.has(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0);
  const join = (row: readonly string[]) => `| ${row.map(padded).join(' | ')} |`;
  const rule = widths.map((width, i) => (right.has(i) ? `${'-'.repeat(width + 1)}:` : '-'.repeat(width + 2)));
  return [join(columns), `|${rule.join('|')}|`, ...cells.map(join)].join('\n');
}

export function bytesText(bytes: number): string {
  return bytes < 10_000 ? `${Math.round(bytes)} bytes` : `${Math.round(bytes / 1000)} kB`;
}

/** Three significant digits: 0.0213, 1.08, 601,000. */
export function short(value: number): string {
  if (value === 0) return '0';
  const digits = Math.floor(Math.log10(Math.abs(value)));
  if (digits >= 3) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.min(5, Math.max(0, 2 - digits)));
}
