/**
 * In: the lines of a run. Out: every target of the project with the number that judges it.
 * Trap: a target whose scenario did not run, or whose row could not be measured, is neither met nor missed; and one that
 * several rows judge (both formats, both models of the same peer) is met only when all of them are.
 */
import { type Line, type Row, rowsTable, short, verdict } from './report.ts';

interface TargetSpec {
  readonly about: string;
  readonly wanted: string;
  readonly scenario: string;
  /** Begins or is in the names of its rows; a row counts when it has a target, or could not be measured. */
  readonly name: RegExp;
}

export const TARGETS: readonly TargetSpec[] = [
  {
    about: 'handler time added to raw, MLP as JSON, p50',
    wanted: '<= 0.10 ms',
    scenario: 'single',
    name: /^MLP.*JSON/,
  },
  {
    about: 'the same, convnet as binary',
    wanted: '<= 0.25 ms',
    scenario: 'single',
    name: /^convnet.*binary/,
  },
  {
    about: 'batch function, efficiency: convnet at 32 rows',
    wanted: '>= 95 %',
    scenario: 'batch',
    name: /^convnet, 32 rows, (?!Redis)/,
  },
  {
    about: 'the same: MLP at 256 rows',
    wanted: '>= 60 %',
    scenario: 'batch',
    name: /^mlp, 256 rows, (?!Redis)/,
  },
  { about: 'Redis round trips per batch', wanted: '1', scenario: 'batch', name: /round trips/ },
  {
    about: 'local HTTP throughput against FastAPI, MLP JSON',
    wanted: '>= 4 x',
    scenario: 'http',
    name: /^MLP.*against FastAPI/,
  },
  {
    about: 'queue path, jobs/s against BullMQ',
    wanted: '>= 3 x',
    scenario: 'offline',
    name: /against BullMQ/,
  },
  {
    about: 'ResNet-50-sized, queue path against in-process',
    wanted: '<= 1.1 x',
    scenario: 'resnet',
    name: /^ResNet-50/,
  },
  {
    about: 'cold start through the Lambda runtime client, model of 5 MB',
    wanted: '<= 180 ms',
    scenario: 'cold',
    name: /./,
  },
  {
    about: "a function's zip, with and without onnxruntime",
    wanted: '<= 20 MB, <= 250 kB',
    scenario: 'zip',
    name: /./,
  },
  { about: 'memory per extra queued message', wanted: 'constant', scenario: 'memory', name: /./ },
];

type Judged = 'met' | 'not met' | 'not measured' | 'not run';

interface JudgedTarget {
  readonly spec: TargetSpec;
  readonly lines: readonly Line[];
  readonly judged: Judged;
}

export function judge(spec: TargetSpec, lines: readonly Line[]): JudgedTarget {
  const own = lines.filter(
    (line) =>
      line.scenario === spec.scenario &&
      spec.name.test(line.name) &&
      ('skipped' in line || line.target !== undefined),
  );
  return { spec, lines: own, judged: judgedOf(spec, own, lines) };
}

function judgedOf({ scenario }: TargetSpec, own: readonly Line[], all: readonly Line[]): Judged {
  const rows = own.filter((line): line is Row => !('skipped' in line));
  if (rows.some((row) => !isMet(row))) return 'not met';
  if (rows.length > 0 && rows.length === own.length) return 'met';
  return all.some((line) => line.scenario === scenario) ? 'not measured' : 'not run';
}

function isMet({ value, target }: Row): boolean {
  return verdict(value, target).startsWith('yes');
}

const COLUMNS = ['target', 'wanted', 'row', 'median', 'lowest .. highest', 'met'];
const RIGHT = new Set([3]);

/** One line for each row that judges a target, and how many targets are met. */
export function targetsText(lines: readonly Line[]): string {
  const all = TARGETS.map((spec) => judge(spec, lines));
  const cells = all.flatMap((each) => cellsOf(each));
  const met = all.filter(({ judged }) => judged === 'met').length;
  return `${rowsTable(COLUMNS, RIGHT, cells)}\n\n${met} of ${TARGETS.length} targets met in every row.`;
}

function cellsOf({ spec: { about, wanted }, lines, judged }: JudgedTarget): string[][] {
  if (lines.length === 0) return [[about, wanted, '', '', '', judged]];
  return lines.map((line, i) => {
    const head = i === 0 ? [about, wanted] : ['', ''];
    if ('skipped' in line) return [...head, line.name, '', '', `not measured: ${line.skipped}`];
    const { median, low, high } = line.value;
    const text = verdict(line.value, line.target);
    return [
      ...head,
      line.name,
      `${short(median)} ${line.unit}`.trim(),
      `${short(low)} .. ${short(high)}`,
      text,
    ];
  });
}
