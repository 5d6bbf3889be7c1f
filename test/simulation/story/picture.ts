/** Draws the story of a violation as an SVG: a column for each part of the deployment, an arrow for each line. */
import type { History, Line } from '../history.ts';
import type { Violation } from '../violation.ts';
import { linesAbout } from './story.ts';

const WIDTH = 900;
const ROW = 34;
const TOP = 70;

/** The column of what a line names. */
function columnOf(name: string): string {
  if (/^(old )?client|^reader/.test(name)) return 'clients';
  if (name.startsWith('bridge')) return 'bridge';
  if (/^(batch|dead-letter)/.test(name)) return 'batch function';
  if (/^(predict|enqueue|status|Lambda)/.test(name)) return 'HTTPS functions';
  if (name === 'outside' || name === 'network' || name === 'clock') return 'outside';
  return (
    { Redis: 'Redis', redis: 'Redis', SQS: 'SQS', sqs: 'SQS', S3: 'S3', s3: 'S3', operator: 'operator' }[
      name
    ] ?? 'batch function'
  );
}

const ORDER = [
  'operator',
  'clients',
  'bridge',
  'HTTPS functions',
  'SQS',
  'batch function',
  'S3',
  'Redis',
  'outside',
];

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

function clock(ms: number): string {
  return `${Math.floor(ms / 60_000)}:${((ms % 60_000) / 1000).toFixed(1).padStart(4, '0')}`;
}

function rowOf(line: Line, i: number, xOf: (name: string) => number): string[] {
  const y = TOP + 26 + i * ROW;
  const [from, to] = [xOf(line.from), xOf(line.to)];
  const drawn =
    from === to
      ? [`<circle cx="${from}" cy="${y}" r="4" class="dot"/>`]
      : [`<line x1="${from}" y1="${y}" x2="${to}" y2="${y}" class="arrow" marker-end="url(#head)"/>`];
  return [
    ...drawn,
    `<text x="8" y="${y + 4}" class="time">${clock(line.atMs)}</text>`,
    `<text x="${WIDTH / 2 + 30}" y="${y - 7}" class="what">${escaped(line.text)}</text>`,
  ];
}

export function pictureOf(history: History, violation: Violation): string {
  const lines = linesAbout(history, violation).filter(({ text }) => !/ logs: /.test(text));
  const used = new Set(lines.flatMap(({ from, to }) => [columnOf(from), columnOf(to)]));
  const columns = ORDER.filter((name) => used.has(name));
  const step = (WIDTH - 100) / columns.length;
  const place = (name: string) => 70 + step * (columns.indexOf(name) + 0.5);
  const height = TOP + 60 + lines.length * ROW;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(violation.invariant)}: ${escaped(violation.text)}</title>`,
    '<style>text{font:12px sans-serif;fill:#222}.head{font-weight:bold;text-anchor:middle}.time{fill:#777}.what{text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:4px}.line{stroke:#ccc}.arrow{stroke:#27c}.dot{fill:#27c}.bad{fill:#b00;font-weight:bold}</style>',
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#27c"/></marker></defs>',
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    ...columns.flatMap((name) => [
      `<text x="${place(name)}" y="40" class="head">${name}</text>`,
      `<line x1="${place(name)}" y1="52" x2="${place(name)}" y2="${height - 40}" class="line"/>`,
    ]),
    ...lines.flatMap((line, i) => rowOf(line, i, (name) => place(columnOf(name)))),
    `<text x="8" y="${height - 14}" class="bad">${escaped(`${violation.invariant}: ${violation.text}`)}</text>`,
    '</svg>',
  ].join('\n')}\n`;
}
