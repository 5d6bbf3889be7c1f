/**
 * In: rows of scenarios. Out: one table, and the same as JSON with what is needed to judge it.
 * Trap: a number without its spread, its machine and the load on it says little; a row that could not be measured
 * says why, and never shows a number.
 */
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { coresText } from './cores.ts';
import type { Spread } from './measure.ts';
import type { BenchModel } from './models.ts';

/** What docs call met. */
export interface Target {
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** One number of a scenario. */
export interface Row {
  readonly scenario: string;
  /** What was done. */
  readonly name: string;
  /** What `value` is, e.g. "added p50". */
  readonly metric: string;
  readonly unit: string;
  /** Of what it is compared with (raw onnxruntime, a peer where the name says so) and of us, in `baseUnit`; medians. */
  readonly raw?: number;
  readonly ours?: number;
  readonly baseUnit?: string;
  readonly value: Spread;
  readonly target?: Target;
  readonly note?: string;
}

/** What was left out, and why. */
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
  /** Who runs on which core. */
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

export function describeMachine(root: string, command: string): Machine {
  const require = createRequire(import.meta.url);
  const { version } = require('onnxruntime-node/package.json') as { version: string };
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    onnxruntime: version,
    commit: commitOf(root),
    command,
    startedAt: new Date().toISOString(),
    loadBefore: loadavg()[0] ?? 0,
    pinning: coresText(),
  };
}

function commitOf(root: string): string {
  try {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
    const changed = git('status', '--porcelain', '--', 'lib', 'functions', 'local')
      .split('\n')
      .filter(Boolean);
    const tail =
      changed.length > 0 ? ` with ${changed.length} changed or new files in lib, functions, local` : '';
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
    `command  ${command} at ${startedAt}`,
    `load     ${loadBefore.toFixed(2)} before, ${loadAfter.toFixed(2)} after ${seconds.toFixed(0)} s (this bench alone is 1 to 2)`,
    ...models.map(({ about, bytes, sha256 }) => `model    ${about}: ${bytes} bytes, sha256 ${sha256}`),
    ...Object.entries(peers).map(([name, versions]) => `peer     ${name}: ${versions}`),
  ].join('\n');
}

const COLUMNS = [
  'scenario',
  'case',
  'compared with',
  'ours',
  'what',
  'median',
  'lowest .. highest',
  'target',
  'met',
];
/** Columns of numbers stand to the right. */
const RIGHT = new Set([2, 3, 5]);

export function tableText(lines: readonly Line[]): string {
  return rowsTable(COLUMNS, RIGHT, lines.map(lineCells));
}

/** A markdown table, aligned so that a terminal shows it as one. @param right columns that stand to the right */
export function rowsTable(
  columns: readonly string[],
  right: ReadonlySet<number>,
  cells: readonly (readonly string[])[],
): string {
  const widths = columns.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const join = (row: readonly string[]) =>
    `| ${row.map((cell, i) => (right.has(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))).join(' | ')} |`;
  const rule = `|${widths.map((width, i) => (right.has(i) ? `${'-'.repeat(width + 1)}:` : '-'.repeat(width + 2))).join('|')}|`;
  return [join(columns), rule, ...cells.map(join)].join('\n');
}

function lineCells(line: Line): string[] {
  if ('skipped' in line)
    return [line.scenario, line.name, '', '', '', '', `not measured: ${line.skipped}`, '', ''];
  const { scenario, name, metric, unit, raw, ours, baseUnit = '', value, target, note } = line;
  const of = (number: number | undefined) =>
    number === undefined ? '' : `${short(number)} ${baseUnit}`.trim();
  return [
    scenario,
    note ? `${name} (${note})` : name,
    of(raw),
    of(ours),
    metric,
    `${short(value.median)} ${unit}`.trim(),
    `${short(value.low)} .. ${short(value.high)}`,
    targetText(target, unit),
    verdict(value, target),
  ];
}

function targetText(target: Target | undefined, unit: string): string {
  if (target?.atMost !== undefined) return `<= ${target.atMost} ${unit}`.trim();
  if (target?.atLeast !== undefined) return `>= ${target.atLeast} ${unit}`.trim();
  return '';
}

/** By the median; a target that lies within the spread is said to. */
export function verdict({ median, low, high }: Spread, target: Target | undefined): string {
  if (target === undefined) return '';
  const { atMost = Number.POSITIVE_INFINITY, atLeast = Number.NEGATIVE_INFINITY } = target;
  const met = (value: number) => value <= atMost && value >= atLeast;
  const unsure = met(low) !== met(high) ? ', within the spread' : '';
  return (met(median) ? 'yes' : 'no') + unsure;
}

/** With a plus before what is more. */
export function signed(value: number, decimals: number): string {
  return (value < 0 ? '' : '+') + value.toFixed(decimals);
}

export function bytesText(bytes: number): string {
  return bytes < 10_000 ? `${Math.round(bytes)} bytes` : `${Math.round(bytes / 1000)} kB`;
}

/** Three digits that say something: 0.0213, 1.08, 601,000. */
export function short(value: number): string {
  if (value === 0) return '0';
  const digits = Math.floor(Math.log10(Math.abs(value)));
  if (digits >= 3) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.min(5, Math.max(0, 2 - digits)));
}
