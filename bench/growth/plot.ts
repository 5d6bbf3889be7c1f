/**
 * In: curves. Out: one picture (SVG) of them on logarithmic axes.
 * Trap: it is looked at on white and on black paper: colours follow the reader's setting, lines differ in their marks
 * too, and every text has a size of its own that does not depend on a font being there.
 */
import { escaped } from '../plot.ts';

interface PlotPoint {
  readonly x: number;
  readonly y: number;
  /** Of the repeats; default y. */
  readonly low?: number;
  readonly high?: number;
}

interface PlotLine {
  readonly name: string;
  readonly points: readonly PlotPoint[];
}

export interface Plot {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly lines: readonly PlotLine[];
}

const WIDTH = 720;
const HEIGHT = 420;
const LEFT = 76;
const RIGHT = 24;
const TOP = 52;
const LEGEND_LINE = 20;
const BOTTOM = 56;
const MARK = 4.5;
/** Lines of one plot: as many as there are colours and marks. */
export const MOST_LINES = 5;

/** Okabe and Ito's colours, told apart by the colour-blind too; on black the dark ones are lighter. */
const STYLE = `
  .paper { fill: #ffffff } .text { fill: #24292f; font: 12px system-ui, sans-serif }
  .title { font-size: 15px; font-weight: 600 } .grid { stroke: #d0d7de; stroke-width: 1 }
  .frame { stroke: #6e7781; stroke-width: 1; fill: none }
  .guide { stroke: #8c959f; stroke-width: 1.2; stroke-dasharray: 3 5; fill: none }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round } .range { stroke-width: 1.2; opacity: 0.7 }
  .c0 { color: #0072b2 } .c1 { color: #d55e00 } .c2 { color: #007a5a } .c3 { color: #a8457f } .c4 { color: #7a6200 }
  .line, .range { stroke: currentColor } .mark { fill: currentColor }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .text { fill: #e6edf3 } .grid { stroke: #30363d } .frame { stroke: #8b949e }
    .guide { stroke: #8b949e }
    .c0 { color: #58a6e8 } .c1 { color: #ff8a3d } .c2 { color: #2fbf8f } .c3 { color: #e38fc0 } .c4 { color: #e3c84a }
  }`;

interface Axis {
  readonly decades: readonly number[];
  /** Place on the picture. */
  at(value: number): number;
}

/** @throws when nothing of it can be shown: logarithms are of numbers above 0 */
export function plotSvg({ title, xLabel, yLabel, lines }: Plot): string {
  if (lines.length > MOST_LINES)
    throw new Error(`a plot has at most ${MOST_LINES} lines, got ${lines.length}`);
  const shown = lines.map((line) => ({ ...line, points: line.points.filter(isShown) }));
  const points = shown.flatMap((line) => line.points);
  if (points.length === 0) throw new Error(`${title}: there is nothing to show`);
  const top = TOP + LEGEND_LINE * Math.ceil(lines.length / 2);
  const x = axis(
    points.map((point) => point.x),
    LEFT,
    WIDTH - RIGHT,
  );
  const y = axis(
    points.flatMap(({ y: middle, low = middle, high = middle }) => [middle, low > 0 ? low : middle, high]),
    HEIGHT - BOTTOM,
    top,
  );
  const body = [
    `<rect class="paper" width="${WIDTH}" height="${HEIGHT}"/>`,
    label(LEFT, 28, title, 'text title'),
    ...shown.map(({ name }, i) => legend(name, i)),
    ...gridOf(x, y, top),
    label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, xLabel, 'text', 'middle'),
    `<g transform="translate(18 ${(top + HEIGHT - BOTTOM) / 2}) rotate(-90)">${label(0, 0, yLabel, 'text', 'middle')}</g>`,
    guide(x, y, shown[0]?.points.at(-1) ?? (points[0] as PlotPoint)),
    ...shown.map((line, i) => drawn(line, i, x, y)),
    `<rect class="frame" x="${LEFT}" y="${top}" width="${WIDTH - RIGHT - LEFT}" height="${HEIGHT - BOTTOM - top}"/>`,
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<clipPath id="inside"><rect x="${LEFT}" y="${top}" width="${WIDTH - RIGHT - LEFT}" height="${HEIGHT - BOTTOM - top}"/></clipPath>`,
    ...body,
    '</svg>\n',
  ].join('\n');
}

function isShown({ x, y }: PlotPoint): boolean {
  return x > 0 && y > 0 && Number.isFinite(x) && Number.isFinite(y);
}

/** Whole decades around the values. */
function axis(values: readonly number[], from: number, to: number): Axis {
  // A value right on a decade needs no other one beyond it; a rounding error must not add one.
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
  return {
    decades: Array.from({ length: high - low + 1 }, (_, i) => low + i),
    at: (value) => from + ((Math.log10(value) - low) / (high - low)) * (to - from),
  };
}

function gridOf(x: Axis, y: Axis, top: number): string[] {
  const bottom = HEIGHT - BOTTOM;
  return [
    ...x.decades.flatMap((decade) => {
      const at = round(x.at(10 ** decade));
      return [
        `<line class="grid" x1="${at}" x2="${at}" y1="${top}" y2="${bottom}"/>`,
        label(at, bottom + 18, decadeText(decade), 'text', 'middle'),
      ];
    }),
    ...y.decades.flatMap((decade) => {
      const at = round(y.at(10 ** decade));
      return [
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}"/>`,
        label(LEFT - 8, at + 4, decadeText(decade), 'text', 'end'),
      ];
    }),
  ];
}

/** Through one point, as steep as what is linear. */
function guide(x: Axis, y: Axis, { x: px, y: py }: PlotPoint): string {
  const [from, to] = [10 ** (x.decades[0] ?? 0), 10 ** (x.decades.at(-1) ?? 0)];
  const at = (value: number) => `${round(x.at(value))} ${round(y.at((py * value) / px))}`;
  return `<path class="guide" clip-path="url(#inside)" d="M${at(from)} L${at(to)}"/>`;
}

function drawn({ points }: PlotLine, i: number, x: Axis, y: Axis): string {
  const path = points.map((point) => `${round(x.at(point.x))} ${round(y.at(point.y))}`).join(' L');
  const ranges = points.flatMap(({ x: px, y: py, low = py, high = py }) => {
    const at = round(x.at(px));
    const [from, to] = [round(y.at(low > 0 ? low : py)), round(y.at(high))];
    return high > low ? [`<line class="range" x1="${at}" x2="${at}" y1="${from}" y2="${to}"/>`] : [];
  });
  const marks = points.map((point) => mark(i, x.at(point.x), y.at(point.y)));
  return `<g class="c${i}"><path class="line" d="M${path}"/>${ranges.join('')}${marks.join('')}</g>`;
}

function mark(i: number, x: number, y: number): string {
  const shapes: readonly (readonly [number, number][])[] = [
    [],
    [
      [-1, -1],
      [1, -1],
      [1, 1],
      [-1, 1],
    ],
    [
      [0, -1.2],
      [1.2, 1],
      [-1.2, 1],
    ],
    [
      [0, -1.4],
      [1.4, 0],
      [0, 1.4],
      [-1.4, 0],
    ],
    [
      [0, 1.2],
      [1.2, -1],
      [-1.2, -1],
    ],
  ];
  const corners = shapes[i] ?? [];
  if (corners.length === 0) return `<circle class="mark" cx="${round(x)}" cy="${round(y)}" r="${MARK}"/>`;
  const places = corners.map(([dx, dy]) => `${round(x + dx * MARK)},${round(y + dy * MARK)}`);
  return `<polygon class="mark" points="${places.join(' ')}"/>`;
}

function legend(name: string, i: number): string {
  const x = LEFT + (i % 2) * ((WIDTH - LEFT - RIGHT) / 2);
  const y = TOP + LEGEND_LINE * Math.floor(i / 2);
  const stroke = `<path class="line" d="M${x} ${y - 4} L${x + 24} ${y - 4}"/>`;
  return `<g class="c${i}">${stroke}${mark(i, x + 12, y - 4)}</g>${label(x + 32, y, name)}`;
}

function label(x: number, y: number, content: string, kind = 'text', anchor = 'start'): string {
  return `<text class="${kind}" x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

/** 0.001, 1, 1,000, then 10⁶. */
function decadeText(decade: number): string {
  if (decade >= -3 && decade <= 4) {
    return decade < 0 ? (10 ** decade).toFixed(-decade) : (10 ** decade).toLocaleString('en-US');
  }
  const digits = '⁰¹²³⁴⁵⁶⁷⁸⁹';
  const power = String(Math.abs(decade)).replaceAll(/\d/g, (digit) => digits[Number(digit)] as string);
  return `10${decade < 0 ? '⁻' : ''}${power}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
