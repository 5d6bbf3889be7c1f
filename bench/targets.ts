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

const ANY = /./;
const TIMES = /^times/;
const AGAINST_PYTHON = /^predict against Python/;
/** The value of the row as a multiple of what it is compared with. */
const TIMES_RAW = 'x raw';

/** Each is a multiple of something in the same run: a time alone is of one machine on one day. */
export const TARGETS: readonly Target[] = [
  target('a small JSON request, against its floor', ['single', /^MLP.*JSON/, /the floor/], 'x', {
    atMost: 1.3,
  }),
  target('convnet as JSON, against JSON.parse', ['single', /^convnet.*JSON$/, /JSON\.parse/], 'x', {
    atMost: 0.35,
  }),
  target('decoding against OpenCV', ['decode', ANY, ANY], 'x', { atMost: 1.3 }),
  target('batch function, convnet, 32 rows', ['batch', /^convnet.*safetensors, redis/, /^effic/], '%', {
    atLeast: 98,
  }),
  target('processor time of a small record', ['batch', /^mlp.*safetensors, redis/, /HSET/], 'x', {
    atMost: 2,
  }),
  target('Redis round trips of an event', ['batch', /round trips/, ANY], '', { atMost: 1 }),
  target('cold start of predict, 5 MB', ['cold', /^predict, model/, /^spawn/], TIMES_RAW, { atMost: 1.4 }),
  target('cold start of batch, 5 MB', ['cold', /^batch, model/, /^spawn/], TIMES_RAW, { atMost: 1.5 }),
  target('cold start, 5 MB, against Rust', ['cold', /^predict against Rust/, /^cold/], 'x', { atMost: 1.8 }),
  target('cold start, 5 MB, against Python + boto3', ['cold', AGAINST_PYTHON, /^cold/], 'x', {
    atMost: 0.35,
  }),
  target('cold start, 100 and 400 MB', ['cold-large', /^predict, model/, /^spawn/], TIMES_RAW, {
    atMost: 1.3,
  }),
  target('cold start, 100 and 400 MB, against Python + boto3', ['cold-large', AGAINST_PYTHON, ANY], 'x', {
    atMost: 0.6,
  }),
  target('memory of predict, warm', ['cold', /^predict, model/, /^memory/], TIMES_RAW, { atMost: 1.2 }),
  target('memory of batch, warm', ['cold', /^batch, model/, /^memory/], TIMES_RAW, { atMost: 1.2 }),
  target('a million, one vCPU, against Python + boto3', ['cold', AGAINST_PYTHON, /one vCPU$/], 'x', {
    atMost: 0.5,
  }),
  target('a million, least memory, against Python + boto3', ['cold', AGAINST_PYTHON, /least/], 'x', {
    atMost: 1,
  }),
  target('local HTTP against fastify', ['http', /^MLP.*against fastify, 32/, ANY], 'x', { atLeast: 1.3 }),
  target('local HTTP against FastAPI', ['http', /^MLP.*against FastAPI, 32/, ANY], 'x', { atLeast: 3 }),
  target('local HTTP against axum', ['http', /^MLP.*against axum, 32/, ANY], 'x', { atLeast: 0.7 }),
  target('local queue against BullMQ', ['offline', /stack against BullMQ, one/, TIMES], 'x', {
    atLeast: 1.3,
  }),
  target('local queue against bunqueue', ['offline', /stack against bunqueue/, TIMES], 'x', { atLeast: 1 }),
  target('two processes of a model against one', ['processes', /two processes/, ANY], 'x', { atLeast: 1.8 }),
  target('local queue against in-process, JPEG', ['resnet', /JPEG.*stack/, ANY], 'x', { atMost: 1.08 }),
  target('the same, tensors', ['resnet', /tensors.*stack/, ANY], 'x', { atMost: 1.25 }),
  target('zip with onnxruntime', ['zip', /with onnx/, ANY], 'MB', { atMost: 20 }),
  target('zip without onnxruntime', ['zip', /without onnx/, ANY], 'kB', { atMost: 250 }),
  target('live memory a queued message', ['memory', /^messages/, ANY], '% of it', { atMost: 5 }),
  target('npm start -- --once in a new clone', ['fresh', /^npm start/, ANY], TIMES_RAW, { atMost: 6 }),
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
