/** Reports a comparison of two versions to a person, with the changes by which clients would get wrong results unnoticed. */
import { goldenText, isFailure } from '../golden/ask.ts';
import { answersText } from '../report-text.ts';
import type { OutputDifference } from './answers.ts';
import { type Break, breaksOf, portText } from './breaks.ts';
import type { Port } from './face.ts';
import type { Diff } from './run.ts';

export interface DiffReport extends Diff {
  readonly breaks: readonly Break[];
}

export function reportOf(diff: Diff): DiffReport {
  const { before, after, answers } = diff;
  const orders = typeof answers === 'string' ? [] : answers.flatMap(orderBreak);
  const breaks = breaksOf(before, after);
  return { ...diff, breaks: [...breaks, ...refusedBreak(diff, breaks), ...orders] };
}

/** @returns none where an input is another one: rows for it are refused for that */
function refusedBreak({ refused }: Diff, breaks: readonly Break[]): Break[] {
  if (!refused || breaks.some(({ name }) => name.startsWith('input:'))) return [];
  const text = `${refused.rows} of ${refused.of} made-up rows that were answered before are refused: ${refused.why}`;
  return [{ name: 'rows', text }];
}

function orderBreak({ output, order }: OutputDifference): Break[] {
  const from = order?.findIndex((to, place) => to !== place) ?? -1;
  if (from < 0) return [];
  const text = `output ${JSON.stringify(output)} has the same values in another order: number ${from} is number ${order?.[from]} now`;
  return [{ name: `answers:${output}`, text }];
}

export function reportText({
  before,
  after,
  golden,
  answers,
  time,
  size,
  memory,
  breaks,
}: DiffReport): string {
  const lines = [
    ['inputs', before.inputs.map(named).join(', '), after.inputs.map(named).join(', ')],
    ['outputs', before.outputs.map(named).join(', '), after.outputs.map(named).join(', ')],
    ['batching', runsText(before.sharesRuns), runsText(after.sharesRuns)],
  ].map(([what = '', was, is]) => row(what, was === is ? `${is}, as before` : `${was} -> ${is}`));
  const failed = golden?.filter(isFailure) ?? [];
  return [
    ...lines,
    row(
      'golden',
      golden ? `${golden.length - failed.length} of ${golden.length} as before` : 'no golden request',
    ),
    ...failed.map((result) => row('', goldenText(result))),
    ...answersLines(answers),
    row('size', times(size)),
    row('memory', memory === undefined ? 'too small to compare' : times(memory)),
    row('time', time === undefined ? 'too short to compare' : `${times(time)} for one row`),
    ...(breaks.length === 0
      ? [row('breaks', 'none')]
      : breaks.map(({ name, text }) => row('breaks', `${name}: ${text}`))),
  ].join('\n');
}

function answersLines(answers: Diff['answers']): string[] {
  if (typeof answers === 'string') return [row('answers', answers)];
  return answers.map(({ rows, worstRow, ...sums }) => {
    const text = answersText({ ...sums, records: rows }, ` (row ${worstRow})`);
    return row('answers', `${sums.output}, ${rows} made-up rows: ${text}`);
  });
}

const named = (port: Port) => `${port.name}: ${portText(port)}`;
const runsText = (sharesRuns: boolean) => (sharesRuns ? 'records share runs' : 'records run one by one');
const row = (what: string, text: string) => `${what.padEnd(10)}${text}`;
const times = (value: number) => `${value.toFixed(2)} times that of before`;
