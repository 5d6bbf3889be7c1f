/** Bars as SVG, for a page: readable on light and dark, and with a title and a description for those who do not see them. */
import { type Line, type Row, short } from './report.ts';

interface Bar {
  readonly label: string;
  readonly value: number;
  readonly isOurs: boolean;
}

interface Chart {
  readonly title: string;
  /** The meaning of a bar, and whether more is better. */
  readonly about: string;
  readonly unit: string;
  readonly bars: readonly Bar[];
}

const WIDTH = 720;
const LABEL = 250;
const ROW = 28;
const TOP = 62;
/** For the number behind the longest bar. */
const NUMBER = 90;

const STYLE = `text{font:14px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600}.about{font-size:12px}.page{fill:#fff}.ours{fill:#0969da}.other{fill:#8c959f}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.ours{fill:#4493f8}.other{fill:#768390}}`;

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

function barsSvg({ title, about, unit, bars }: Chart): string {
  const most = Math.max(...bars.map(({ value }) => value));
  const textOf = (value: number) => `${short(value)} ${unit}`.trim();
  const told = bars.map(({ label, value }) => `${label}: ${textOf(value)}`).join('; ');
  const height = TOP + bars.length * ROW + 8;
  const rows = bars.map(({ label, value, isOurs }, i) => {
    const y = TOP + i * ROW;
    const width = Math.max(1, ((WIDTH - LABEL - NUMBER) * value) / most);
    return `<text x="${LABEL - 10}" y="${y + 16}" text-anchor="end">${escaped(label)}</text>
<rect class="${isOurs ? 'ours' : 'other'}" x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 7}" rx="2"/>
<text x="${(LABEL + width + 6).toFixed(1)}" y="${y + 16}">${textOf(value)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title about">
<title id="title">${escaped(title)}</title>
<desc id="about">${escaped(`${about} ${told}.`)}</desc>
<style>${STYLE}</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>
<text class="title" x="14" y="24">${escaped(title)}</text>
<text class="about" x="14" y="44">${escaped(about)}</text>
${rows.join('\n')}
</svg>
`;
}

const measured = (lines: readonly Line[], scenario: string) =>
  lines.filter((line): line is Row => !('skipped' in line) && line.scenario === scenario);

/** The labels of bars, by how the name of the row begins. */
const STARTS: Readonly<Record<string, string>> = {
  'no function': 'one run in a Node process',
  'predict, model': 'predict (ours)',
  'batch, model': 'batch (ours)',
  'Python + boto3': 'Python + boto3',
  'FastAPI + Mangum': 'FastAPI + Mangum',
  Rust: 'Rust',
};

/** From spawn to the first answer. What a run has no row of has no bar. */
export function coldPicture(lines: readonly Line[]): string {
  const rows = measured(lines, 'cold').filter(({ metric }) => metric.startsWith('spawn'));
  const bars = Object.entries(STARTS).flatMap(([begin, label]): Bar[] => {
    const row = rows.find(({ name }) => name.startsWith(begin));
    return row ? [{ label, value: row.value.median, isOurs: label.endsWith('(ours)') }] : [];
  });
  const title = 'Cold start of a function with a model of 5 MB';
  return barsSvg({
    title,
    about: 'From spawn to the first answer, ms. Shorter is better.',
    unit: 'ms',
    bars,
  });
}

const QUEUES = new Set(['BullMQ', 'bunqueue']);

/** Each peer beside ours, which is 100: they were measured in turns, and ours was not equally fast beside each. */
export function throughputPicture(lines: readonly Line[]): string {
  const ratios = [
    ...measured(lines, 'http').filter(({ name }) => /^MLP.* against (?!bare).*32/.test(name)),
    ...measured(lines, 'offline').filter(({ name }) => /stack against (BullMQ|bunqueue), one/.test(name)),
  ];
  const bars = ratios.map(({ name, value }): Bar => {
    const [, peer = name] = /against ([^,]+)/.exec(name) ?? [];
    return { label: QUEUES.has(peer) ? `${peer} (queue)` : peer, value: 100 / value.median, isOurs: false };
  });
  const ours = { label: 'this project', value: 100, isOurs: true };
  const sorted = [ours, ...bars].sort((a, b) => b.value - a.value);
  const about = 'Requests (queues: records) served while ours serves 100, on one core. Longer is better.';
  return barsSvg({ title: 'One machine, a small model', about, unit: '', bars: sorted });
}
