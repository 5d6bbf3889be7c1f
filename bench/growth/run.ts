/**
 * `npm run bench:growth`: measures how cost grows with a size, and prints the points and the fit of each curve. Each point
 * has a process of its own; every point is measured once before any is measured again, in another order each time. A wrong
 * answer ends the run.
 */

import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { present } from '../../lib/contract/present.ts';
import { Bench } from '../bench.ts';
import { shuffled, spreadOf } from '../measure.ts';
import { randomNumbers } from '../models.ts';
import { serveParent, startChild } from '../processes/child.ts';
import { describeMachine, type Machine, rowsTable, short } from '../report.ts';
import type { Sample } from '../sample.ts';
import { type Curve, METRICS, type Point } from './curve.ts';
import { CURVES } from './curves.ts';
import { judgeCurve, type MeasuredCurve } from './fit.ts';

export interface CurveRun {
  readonly machine: Machine;
  readonly loadAfter: number;
  readonly curve: MeasuredCurve;
}

const PROGRAM = fileURLToPath(import.meta.url);
const USAGE = `Usage: npm run bench:growth -- [curve...] [--quick] [--json <file>]

${CURVES.map(({ name, xLabel }) => `  ${name.padEnd(9)}by ${xLabel}`).join('\n')}

Without a name all of them, in about 15 minutes. --quick takes smaller sizes, once. --json puts them into a file, in
which the other curves stay.`;

/** Killed at its end: one process in twenty hung while onnxruntime was unloaded. */
export async function measurePoint(point: Point, bench: Bench): Promise<Sample> {
  const child = await startChild<typeof methods>(PROGRAM, {
    flags: ['--expose-gc'],
    environment: { ...(await bench.aws()).environment, NODE_COMPILE_CACHE: join(bench.folder, 'compiled') },
  });
  try {
    return await child.call('measure', point);
  } finally {
    await child.kill();
  }
}

async function preparePoint(curve: Curve, series: string, x: number, bench: Bench): Promise<Point> {
  const { input, warm, ...prepared } = await curve.prepare(x, series, bench);
  const write = async (content: string | Uint8Array, of: string) => {
    const path = join(bench.folder, [curve.name, series, x, of].join('-').replaceAll(/\W+/g, '-'));
    await writeFile(path, content);
    return path;
  };
  const { url: redisUrl } = await bench.redis();
  const { url: endpoint } = await bench.aws();
  const files = { input: await write(input, 'input'), warm: await write(warm, 'warm') };
  const place = { curve: curve.name, series, x, redisUrl, endpoint };
  return { ...prepared, ...place, ...files, timedMs: 300 };
}

async function measureCurve(curve: Curve, bench: Bench): Promise<MeasuredCurve> {
  const begin = performance.now();
  const places: { readonly point: Point; readonly samples: Sample[] }[] = [];
  for (const [series, xs] of Object.entries(curve.series))
    for (const x of bench.quick ? xs.slice(0, Math.max(2, xs.length - 2)) : xs)
      places.push({ point: await preparePoint(curve, series, x, bench), samples: [] });
  const random = randomNumbers(73);
  const repeats = bench.quick ? 1 : 3;
  for (let repeat = 0; repeat < repeats; repeat++)
    for (const { point, samples } of shuffled(places, random)) samples.push(await measurePoint(point, bench));
  const { name, xLabel, metrics = METRICS } = curve;
  const valuesOf = (samples: readonly Sample[]) =>
    metrics.map(({ key }) => [key, spreadOf(samples.map((sample) => sample[key] ?? Number.NaN))] as const);
  const series = Object.entries(Object.groupBy(places, ({ point }) => point.series)).map(
    ([of, some = []]) => ({
      name: of,
      points: some.map(({ point: { x }, samples }) => ({ x, values: Object.fromEntries(valuesOf(samples)) })),
    }),
  );
  return { name, xLabel, metrics, series, repeats, seconds: (performance.now() - begin) / 1000 };
}

/** A line for each number of each series: at its smallest and largest size, and how it grows. Bytes are MB. */
export function curveTable(curve: MeasuredCurve): string {
  const rows = judgeCurve(curve).map(({ series, metric, exponent, lastStep, isDefect }) => {
    const points = curve.series.find(({ name }) => name === series)?.points ?? [];
    const [unit, factor] = metric.unit === 'ms' ? ['ms', 1] : ['MB', 1e6];
    const ends = [points[0], points.at(-1)].map((point) => {
      const median = point?.values[metric.key]?.median ?? Number.NaN;
      return `${short(median / factor)} at ${point?.x.toLocaleString('en-US')}`;
    });
    const growth = [exponent.toFixed(2), lastStep.toFixed(2), `${metric.atMost}`, isDefect ? 'over' : ''];
    return [series, `${metric.label}, ${unit}`, ...ends, ...growth];
  });
  const head = ['what', 'of it', 'smallest', 'largest', 'exponent', 'last step', 'limit', ''];
  return rowsTable(head, new Set([2, 3, 4, 5, 6]), rows);
}

async function main(): Promise<number> {
  const options = {
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean' },
  } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const unknown = positionals.filter((name) => !CURVES.some((curve) => curve.name === name));
  if (values.help || unknown.length > 0) {
    console.error(unknown.length > 0 ? `no curve ${unknown.join(', ')}\n\n${USAGE}` : USAGE);
    return unknown.length > 0 ? 2 : 0;
  }
  const command = ['npm run bench:growth --', ...positionals, ...(values.quick ? ['--quick'] : [])].join(' ');
  const runs: Record<string, CurveRun> = {};
  for (const curve of CURVES.filter(({ name }) => positionals.length === 0 || positionals.includes(name))) {
    const machine = describeMachine(command);
    // Everything that a curve starts ends with it, so that no curve is measured beside the servers of another.
    const bench = await Bench.open({ quick: values.quick });
    try {
      const measured = await measureCurve(curve, bench);
      runs[curve.name] = { machine, loadAfter: loadavg()[0] ?? 0, curve: measured };
      console.log(`\n${curve.name}, by ${curve.xLabel} (${measured.seconds.toFixed(0)} s)\n`);
      console.log(curveTable(measured));
    } finally {
      await bench.close();
    }
  }
  if (values.json) {
    const others = existsSync(values.json) ? JSON.parse(await readFile(values.json, 'utf8')) : {};
    await writeFile(values.json, `${JSON.stringify({ ...others, ...runs }, undefined, 2)}\n`);
  }
  return 0;
}

/** In the process of a point. */
const methods = {
  async measure(point: Point): Promise<Sample> {
    return present(
      CURVES.find(({ name }) => name === point.curve),
      'fitting element of CURVES',
    ).measure(point);
  },
};

if (process.send && import.meta.main) serveParent(methods);
else if (import.meta.main) process.exitCode = await main();
