/**
 * In: a chart. Out: it as SVG, horizontal bars with their numbers beside them.
 * Trap: the picture stands in light and in dark pages: no background, and colours of text by the reader's own setting.
 */
import type { Bar, Chart } from './charts.ts';
import { short } from './report.ts';

const WIDTH = 800;
const LABEL_WIDTH = 320;
const NUMBER_WIDTH = 130;
const TOP = 62;
const BAR = 18;
const GAP = 8;
const BOTTOM = 14;
const SCALE = WIDTH - LABEL_WIDTH - NUMBER_WIDTH;

const STYLE = `
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .ours { fill: #0969da; }
  .other { fill: #9aa4af; }
  .spread { stroke: #1f2328; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .quiet { fill: #9198a1; }
    .ours { fill: #4493f8; }
    .other { fill: #6e7681; }
    .spread { stroke: #e6edf3; }
  }`;

export function svgOf({ title, subtitle, unit, bars }: Chart): string {
  const height = TOP + bars.length * (BAR + GAP) + BOTTOM;
  const most = Math.max(...bars.map(({ value, high = 0 }) => Math.max(value, high)));
  const rows = bars.map((bar, i) => barOf(bar, i, most, unit));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}\n</style>`,
    `<text class="title" x="0" y="18">${escaped(title)}</text>`,
    `<text class="quiet" x="0" y="40">${escaped(subtitle)}</text>`,
    ...rows,
    '</svg>',
    '',
  ].join('\n');
}

function barOf({ label, value, low, high, isOurs }: Bar, index: number, most: number, unit: string): string {
  const y = TOP + index * (BAR + GAP);
  const middle = y + BAR / 2;
  const x = (number: number) => (LABEL_WIDTH + (SCALE * number) / most).toFixed(1);
  const length = Math.max(1, (SCALE * value) / most).toFixed(1);
  const end = LABEL_WIDTH + (SCALE * Math.max(value, high ?? 0)) / most + 8;
  const text = `y="${middle}" dominant-baseline="central"`;
  return [
    `<text x="${LABEL_WIDTH - 10}" ${text} text-anchor="end">${escaped(label)}</text>`,
    `<rect class="${isOurs ? 'ours' : 'other'}" x="${LABEL_WIDTH}" y="${y}" width="${length}" height="${BAR}" rx="2"/>`,
    ...(low === undefined || high === undefined
      ? []
      : [`<line class="spread" x1="${x(low)}" x2="${x(high)}" y1="${middle}" y2="${middle}"/>`]),
    `<text x="${end.toFixed(1)}" ${text}>${escaped(`${short(value)} ${unit}`)}</text>`,
  ].join('\n');
}

/** For texts and attributes. */
export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
