/** Reports a replay to a person, and judges it. */
import { answersText, percent, share } from '../report-text.ts';
import type { ReplayedOutput } from './output-sums.ts';
import { type Counted, type Replay, TOLERANCE } from './tally.ts';

export interface Judged {
  /** The version that was asked; undefined for a folder. */
  readonly version: string | undefined;
  /** The share of records whose first class may change, in a version that did not answer them. Undefined: any. */
  readonly maxFlips: number | undefined;
}

/** @returns why it is not good, a line each; none for a good one */
export function problemsOf(replay: Replay, { version, maxFlips }: Judged): string[] {
  const { bits, tolerance, failures, flips, compared, settings, versions, outputs } = replay;
  const all = compared + failures.records;
  if (all === 0) {
    const left = replay.leftOut.length > 0 ? `: they lack ${replay.leftOut.join(', ')}` : '';
    return [`none of ${replay.lines} captured requests and records can be replayed${left}`];
  }
  const isOwn = version !== undefined && Object.keys(versions).every((name) => name === version);
  if (isOwn) {
    return [
      ...(bits.differ > 0
        ? [
            `${bits.differ} of ${bits.records} answers have other bits, though nothing else has changed: the runtime has drifted`,
          ]
        : []),
      ...(tolerance.differ > 0
        ? [
            `${tolerance.differ} of ${tolerance.records} answers differ by more than ${TOLERANCE} of the spread`,
          ]
        : []),
      ...(failures.differ > 0 ? [`${failures.differ} requests and records end in another way`] : []),
      ...settings.map((setting) => `setting ${setting}`),
    ];
  }
  if (maxFlips === undefined) return [];
  const forms = outputs.reduce((most, { otherForm }) => Math.max(most, otherForm), 0);
  const changed = Math.max(flips, forms) + failures.differ;
  const part = changed / all;
  const text = `${changed} of ${all} captured records have another first class, form or end: ${percent(part)}, over release.maxFlips ${percent(maxFlips)}`;
  return part > maxFlips ? [text] : [];
}

export function replayText(replay: Replay, problems: readonly string[]): string {
  const { lines, versions, from, to, compared, bits, tolerance, because, failures, unread, slices } = replay;
  const time = from === undefined || to === undefined ? '' : `, ${dateText(from)} to ${dateText(to)}`;
  const by = Object.entries(versions).map(([version, count]) => `${count} by ${version}`);
  const elsewhere = because.length > 0 ? ` (${because.join('; ')})` : '';
  const rows: (readonly [string, string])[] = [
    ['captured', `${lines} requests and records${time}: ${by.join(', ')}`],
    ['compared', `${compared} records`],
  ];
  if (bits.records > 0) rows.push(['', `${differText(bits)} bit for bit`]);
  if (tolerance.records > 0)
    rows.push(['', `${differText(tolerance)} within ${TOLERANCE} of the spread${elsewhere}`]);
  for (const setting of replay.settings) rows.push(['setting', setting]);
  for (const { output, classes = [], ...sums } of replay.outputs) {
    rows.push(['answers', `${output}: ${answersText(sums)}`]);
    if (classes.length > 1) rows.push(['classes', `${output}: ${classesText(classes, sums.records)}`]);
  }
  for (const { id, at, output, distance } of replay.worst)
    rows.push([
      'worst',
      `${id} (${dateText(at)}): ${output}, ${distance === null ? 'another form' : percent(distance)}`,
    ]);
  if (failures.records > 0) rows.push(['failures', `${differText(failures)} as before`]);
  for (const { id, at, was, is } of replay.otherEnds)
    rows.push(['', `${id} (${dateText(at)}): ${was} -> ${is}`]);
  for (const { value, records, flips, differ } of (slices ?? []).slice(0, MOST_SLICES))
    rows.push(['slice', `${value}: ${share(flips, records)} flip, ${differ} differ`]);
  if (replay.notReplayable > 0)
    rows.push([
      'left out',
      `${replay.notReplayable} records lack ${replay.leftOut.join(', ')} and are not replayed`,
    ]);
  if (replay.lost > 0) rows.push(['lost', `${replay.lost} were drawn and could not be stored`]);
  if (replay.unreadable > 0) rows.push(['unread', `${replay.unreadable} lines of no capture of this job`]);
  for (const { place, text } of unread) rows.push(['', `${place}: ${text}`]);
  const verdict = problems.length === 0 ? 'good' : problems.join('\n           ');
  return [...rows, ['verdict', verdict] as const]
    .map(([name, text]) => `${name.padEnd(11)}${text}`)
    .join('\n');
}

const MOST_SLICES = 10;
const MOST_CLASSES = 6;

/** A share of so few records is not exact: with 95 % it is within the last number. */
function classesText(classes: NonNullable<ReplayedOutput['classes']>, records: number): string {
  const texts = classes.slice(0, MOST_CLASSES).map(({ name, before, after }) => {
    return `${name} ${percent(before / records)} -> ${percent(after / records)}`;
  });
  const more = classes.length > MOST_CLASSES ? [`${classes.length - MOST_CLASSES} more`] : [];
  const widest = Math.max(...classes.map(({ before }) => (before / records) * (1 - before / records)));
  return `${[...texts, ...more].join(', ')} (each ± ${percent(1.96 * Math.sqrt(widest / records))})`;
}

function differText({ records, differ }: Counted): string {
  return `${records - differ} of ${records} the same`;
}

function dateText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}
