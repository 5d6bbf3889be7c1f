/** Formats an examination as text, by topic. Colours only repeat what symbols and words say. */
import type { Diagnosis, Examination } from './examine.ts';
import { counted, type Severity, TOPICS } from './rule.ts';

export interface ReportOptions {
  readonly colours: boolean;
  /** The width of the terminal. */
  readonly columns: number;
  /** The first line: what was examined. */
  readonly title: string;
}

const SYMBOLS: Readonly<Record<Severity, string>> = { error: '✖', warning: '▲', info: 'ℹ' };
const COLOURS: Readonly<Record<Severity, number>> = { error: 31, warning: 33, info: 36 };
const BOLD = 1;
const DIM = 2;
const INDENT = '      ';
const LABEL_LENGTH = 10;
const MIN_COLUMNS = 60;
const MAX_COLUMNS = 120;

export function reportText(examination: Examination, { colours, columns, title }: ReportOptions): string {
  const paint = (code: number, text: string) => (colours ? `\u001b[${code}m${text}\u001b[0m` : text);
  const width = Math.min(Math.max(columns, MIN_COLUMNS), MAX_COLUMNS) - 1;
  const { findings } = examination;
  const topics = TOPICS.filter((topic) => findings.some((finding) => finding.topic === topic));
  const sections = topics.map((topic) => {
    const own = findings.filter((finding) => finding.topic === topic);
    return [paint(BOLD, topic), ...own.map((finding) => findingText(finding, width, paint))].join('\n');
  });
  return [title, ...sections, summary(examination)].join('\n\n');
}

type Paint = (code: number, text: string) => string;

function findingText(
  { severity, rule, where, found, expected, why, fix }: Diagnosis,
  width: number,
  paint: Paint,
) {
  const head = `  ${paint(COLOURS[severity], `${SYMBOLS[severity]} ${severity.padEnd(7)}`)} ${where}  ${paint(DIM, rule)}`;
  const rows = [
    ['found', found],
    ['expected', expected],
    ['why', why],
    ['to do', fix],
  ] as const;
  const lines = rows.flatMap(([label, text]) =>
    wrapped(text, width - INDENT.length - LABEL_LENGTH).map((line, i) => {
      const shown = i === 0 ? label.padEnd(LABEL_LENGTH) : ' '.repeat(LABEL_LENGTH);
      return `${INDENT}${paint(DIM, shown)}${line}`;
    }),
  );
  return [head, ...lines].join('\n');
}

/** Breaks at spaces; a word that is longer than the line gets a line of its own. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

function summary({ counts, checked, unchecked, unlisted }: Examination): string {
  const { error, warning, info } = counts;
  const parts = [counted(error, 'error'), counted(warning, 'warning'), counted(info, 'note')];
  const all = error + warning + info === 0 ? 'nothing found' : parts.join(', ');
  const more = unlisted > 0 ? `; ${unlisted} more of the same kinds are counted and not listed` : '';
  const left = unchecked.length > 0 ? `, ${unchecked.length} need more than was there` : '';
  return `${all}${more}; ${counted(checked, 'rule')} checked${left}. docs/how-to/doctor.md explains each.`;
}
