/**
 * In: the lines of a run. Out: what there is to draw of it: bars with a name and a number each.
 * Trap: a row that could not be measured has no bar; a chart with fewer than two bars compares nothing and is left out.
 */
import type { Line, Row } from './report.ts';

export interface Bar {
  readonly label: string;
  readonly value: number;
  /** Of the repeats, where the run tells. */
  readonly low?: number;
  readonly high?: number;
  /** Drawn in the project's own colour. */
  readonly isOurs: boolean;
}

export interface Chart {
  /** Of the file. */
  readonly name: string;
  readonly title: string;
  readonly subtitle: string;
  readonly unit: string;
  readonly bars: readonly Bar[];
}

const OURS = 'cluster-serving';

export function chartsOf(lines: readonly Line[]): Chart[] {
  const rows = lines.filter((line): line is Row => !('skipped' in line));
  return [httpChart(rows), serverChart(rows), queueChart(rows), addedChart(rows)].filter(
    ({ bars }) => bars.length >= 2,
  );
}

function httpChart(rows: readonly Row[]): Chart {
  const own = rows.filter(({ scenario, name }) => scenario === 'http' && name.startsWith('MLP'));
  const bars = own.flatMap((row): Bar[] => {
    if (!row.name.endsWith('32 connections')) return [];
    if (row.metric === 'share of raw' && row.name.includes(', gateway,')) {
      return [{ label: `${OURS}, local gateway`, value: row.ours ?? 0, isOurs: true }];
    }
    if (row.metric === 'share of raw' && row.name.includes('bare node:http')) {
      return [{ label: 'bare node:http, ten lines', value: row.ours ?? 0, isOurs: false }];
    }
    const peer = /against (?!bare)([^,]+),/.exec(row.name)?.[1];
    return peer ? [{ label: peer, value: row.raw ?? 0, isOurs: false }] : [];
  });
  return {
    name: 'http',
    title: 'HTTP throughput: MLP, 64 floats as JSON',
    subtitle: 'requests a second over 32 connections; one core for the server, one thread. More is better.',
    unit: 'requests/s',
    bars: sorted(bars),
  };
}

function serverChart(rows: readonly Row[]): Chart {
  const bars = rows
    .filter(({ scenario, metric }) => scenario === 'server' && metric.startsWith('highest rate'))
    .map(({ name, value }): Bar => {
      const id = name.split(', ').at(-1) ?? name;
      const isOurs = id === 'gateway';
      const label = isOurs ? `${OURS}, local gateway` : id;
      return { label, value: value.median, low: value.low, high: value.high, isOurs };
    });
  return {
    name: 'server',
    title: 'Server: Poisson arrivals, MLP as JSON',
    subtitle: 'highest rate at which 99 % are answered within 50 ms of when they were due. More is better.',
    unit: 'requests/s',
    bars: sorted(bars),
  };
}

function queueChart(rows: readonly Row[]): Chart {
  const bars = rows
    .filter(({ scenario, name }) => scenario === 'offline' && name.includes('5 x'))
    .map(({ name, value }): Bar => {
      const label = /records, (.+) \(/.exec(name)?.[1] ?? name;
      const isOurs = !label.startsWith('BullMQ');
      const { median, low, high } = value;
      return { label: isOurs ? `${OURS}, ${label}` : label, value: median, low, high, isOurs };
    });
  return {
    name: 'queue',
    title: 'Offline: a full queue, MLP',
    subtitle: 'records a second, results in redis-server; one core for the worker. More is better.',
    unit: 'records/s',
    bars: sorted(bars),
  };
}

/** Two bars for each case: the model alone, and the handler. */
function addedChart(rows: readonly Row[]): Chart {
  const bars = rows
    .filter(({ scenario, metric }) => scenario === 'single' && metric === 'added p50')
    .flatMap(({ name, raw = 0, ours = 0 }): Bar[] => [
      { label: `${name}: handler`, value: ours, isOurs: true },
      { label: `${name}: model alone`, value: raw, isOurs: false },
    ]);
  return {
    name: 'single',
    title: 'SingleStream: one request after the other',
    subtitle: 'ms at the median: the whole handler, and the run of the model alone. Less is better.',
    unit: 'ms',
    bars,
  };
}

function sorted(bars: readonly Bar[]): Bar[] {
  return [...bars].sort((a, b) => b.value - a.value);
}
