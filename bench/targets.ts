/**
 * The project's targets, and the rows of a run that judge them. A target that several rows judge is met only when all of
 * them meet it; one whose scenario did not run, or whose row could not be measured, is neither met nor missed.
 */
import type { Spread } from './measure.ts';
import { type Line, type Row, rowsTable, spreadCells } from './report.ts';

interface Limit {
  readonly atMost?: number;
  readonly atLeast?: number;
}

interface Target extends Limit {
  readonly about: string;
  readonly scenario: string;
  /** The names and the metric of its rows. */
  readonly rows: RegExp;
  readonly metric: RegExp;
  readonly unit: string;
}

const target = (
  about: string,
  [scenario, rows, metric]: readonly [string, RegExp, RegExp],
  unit: string,
  limit: Limit,
): Target => ({ about, scenario, rows, metric, unit, ...limit });

const P50 = /^added p50$/;
const ANY = /./;
const AGAINST_PYTHON = /^predict against Python/;
/** The value of the row as a multiple of what it is compared with. */
const TIMES_RAW = 'x raw';

export const TARGETS: readonly Target[] = [
  target('handler time added to raw, MLP as JSON', ['single', /^MLP.*JSON/, P50], 'ms', { atMost: 0.015 }),
  target('the same, convnet as binary', ['single', /^convnet.*binary/, P50], 'ms', { atMost: 0.05 }),
  target('the same, convnet as PNG or JPEG', ['single', /^convnet, (PNG|JPEG)/, P50], 'ms', { atMost: 0.2 }),
  target('the same, convnet as JSON, against JSON.parse', ['single', /JSON$/, /JSON\.parse/], 'x', {
    atMost: 0.6,
  }),
  target('batch function, convnet, 32 rows', ['batch', /^convnet.*safetensors, redis/, /^effic/], '%', {
    atLeast: 97,
  }),
  target('processor time added a record, MLP', ['batch', /^mlp.*safetensors, redis/, /^added/], 'us', {
    atMost: 8,
  }),
  target('Redis round trips of an event', ['batch', /round trips/, ANY], '', { atMost: 1 }),
  target('cold start of predict', ['cold', /^predict, model/, /^spawn/], TIMES_RAW, { atMost: 1.6 }),
  target('cold start of batch', ['cold', /^batch, model/, /^spawn/], TIMES_RAW, { atMost: 1.8 }),
  target('cold start against Python + boto3', ['cold', AGAINST_PYTHON, /^cold/], 'x', { atMost: 0.4 }),
  target('cost of a million against Python + boto3', ['cold', AGAINST_PYTHON, /^cost/], 'x', { atMost: 0.6 }),
  target('memory of predict, warm', ['cold', /^predict, model/, /^memory/], 'MB', { atMost: 90 }),
  target('memory of batch, warm', ['cold', /^batch, model/, /^memory/], 'MB', { atMost: 110 }),
  target('decoding against OpenCV', ['decode', /500x375/, ANY], 'x', { atMost: 1.3 }),
  target('local HTTP against fastify', ['http', /^MLP.*against fastify, 32/, ANY], 'x', { atLeast: 1 }),
  target('local HTTP against FastAPI', ['http', /^MLP.*against FastAPI, 32/, ANY], 'x', { atLeast: 2.5 }),
  target('two processes of a model against one', ['processes', /two processes/, ANY], 'x', { atLeast: 1.8 }),
  target('local queue against BullMQ', ['offline', /stack against BullMQ, one/, ANY], 'x', { atLeast: 2 }),
  target('local queue against in-process, JPEG', ['resnet', /JPEG.*stack/, ANY], 'x', { atMost: 1.08 }),
  target('the same, tensors', ['resnet', /tensors.*stack/, ANY], 'x', { atMost: 1.25 }),
  target('zip with onnxruntime', ['zip', /with onnx/, ANY], 'MB', { atMost: 20 }),
  target('zip without onnxruntime', ['zip', /without onnx/, ANY], 'kB', { atMost: 250 }),
  target('npm ci on a fresh clone', ['fresh', /^npm ci/, ANY], 's', { atMost: 20 }),
  target('npm start -- --once after it', ['fresh', /^npm start/, ANY], 's', { atMost: 1.5 }),
  target('live memory a queued message', ['memory', /^messages/, ANY], '% of it', { atMost: 5 }),
];

type Judged = 'met' | 'not met' | 'not measured' | 'not run';

function rowsOf({ scenario, rows, metric }: Target, lines: readonly Line[]): Line[] {
  return lines.filter(
    (line) =>
      line.scenario === scenario && rows.test(line.name) && ('skipped' in line || metric.test(line.metric)),
  );
}

export function judge(of: Target, lines: readonly Line[]): Judged {
  const own = rowsOf(of, lines);
  const measured = own.filter((line): line is Row => !('skipped' in line));
  if (measured.some((row) => !verdict(valueOf(of, row), of).startsWith('yes'))) return 'not met';
  if (measured.length > 0 && measured.length === own.length) return 'met';
  return lines.some(({ scenario }) => scenario === of.scenario) ? 'not measured' : 'not run';
}

function valueOf({ unit }: Target, { value, raw = Number.NaN }: Row): Spread {
  const { median, low, high } = value;
  return unit === TIMES_RAW ? { median: median / raw, low: low / raw, high: high / raw } : value;
}

/** By the median; says when the target lies within the spread. */
export function verdict({ median, low, high }: Spread, { atMost, atLeast }: Limit): string {
  const met = (value: number) => value <= (atMost ?? Infinity) && value >= (atLeast ?? -Infinity);
  return (met(median) ? 'yes' : 'no') + (met(low) === met(high) ? '' : ', within the spread');
}

/** One line for each row that judges a target, or for its worst alone, and how many targets are met. */
export function targetsText(lines: readonly Line[], worstOnly = false): string {
  const cells = TARGETS.flatMap((each) => {
    const { about, unit, atMost, atLeast } = each;
    const wanted = `${atMost === undefined ? `>= ${atLeast}` : `<= ${atMost}`} ${unit}`.trim();
    const own = rowsOf(each, lines);
    if (own.length === 0) return [[about, wanted, '', '', '', judge(each, lines)]];
    const badness = (line: Line) =>
      'skipped' in line ? -Infinity : valueOf(each, line).median * (atMost === undefined ? -1 : 1);
    const shown = worstOnly ? own.toSorted((a, b) => badness(b) - badness(a)).slice(0, 1) : own;
    return shown.map((line, i) => {
      const head = i === 0 ? [about, wanted, line.name] : ['', '', line.name];
      if ('skipped' in line) return [...head, '', '', `not measured: ${line.skipped}`];
      const value = valueOf(each, line);
      return [...head, ...spreadCells(value, unit), verdict(value, each)];
    });
  });
  const met = TARGETS.filter((each) => judge(each, lines) === 'met').length;
  const table = rowsTable(
    ['target', 'wanted', 'row', 'median', 'lowest .. highest', 'met'],
    new Set([3]),
    cells,
  );
  return `${table}\n\n${met} of ${TARGETS.length} targets met in every row.`;
}
