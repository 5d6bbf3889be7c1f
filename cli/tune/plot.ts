/**
 * In: numbers by batch size. Out: bars of a terminal, and the same curves as an SVG file.
 * Trap: a bar begins at 0, or it lies about how much is gained; and an eighth of a character is the finest there is.
 */

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const;

/** @param share from 0 to 1 */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8);
  return ('█'.repeat(eighths >> 3) + (EIGHTHS[eighths & 7] as string)).padEnd(width);
}

interface Curve {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Chart {
  readonly title: string;
  readonly curves: readonly Curve[];
}

const WIDTH = 460;
const HEIGHT = 320;
const MARGIN = { left: 64, right: 16, top: 40, bottom: 44 };
const LEGEND_LINE = 16;
/** Told apart without colours too: the legend is in the order of the curves' ends. */
const COLOURS = ['#1b6ca8', '#c8553d', '#3a7d44', '#7b4b94', '#b8860b', '#008b8b', '#6b6b6b', '#d1495b'];
const Y_TICKS = 4;

/** Charts beside each other; x is a number of records, on a scale of powers of two. */
export function svg(title: string, charts: readonly Chart[]): string {
  const most = Math.max(1, ...charts.map(({ curves }) => curves.length));
  const height = HEIGHT + 28 + most * LEGEND_LINE;
  const width = WIDTH * charts.length;
  const panels = charts.map((chart, i) => `<g transform="translate(${i * WIDTH},28)">${panel(chart)}</g>`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="white"/>`,
    text(16, 20, title, 'font-size="13" font-weight="bold"'),
    ...panels,
    '</svg>',
    '',
  ].join('\n');
}

function panel({ title, curves }: Chart): string {
  const all = curves.flatMap(({ points }) => points);
  const xs = [...new Set(all.map(([x]) => x))].toSorted((a, b) => a - b);
  const [low = 1, high = 1] = [xs[0], xs.at(-1)];
  const top = niceTop(Math.max(...all.map(([, y]) => y), 0));
  const [plotWidth, plotHeight] = [WIDTH - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
  const span = Math.log2(high) - Math.log2(low) || 1;
  const x = (value: number) => MARGIN.left + (plotWidth * (Math.log2(value) - Math.log2(low))) / span;
  const y = (value: number) => MARGIN.top + plotHeight * (1 - value / top);
  const floor = MARGIN.top + plotHeight;
  const parts = [text(MARGIN.left, 24, title, 'font-weight="bold"')];
  for (let tick = 0; tick <= Y_TICKS; tick++) {
    const value = (top * tick) / Y_TICKS;
    parts.push(line(MARGIN.left, y(value), WIDTH - MARGIN.right, y(value), '#dddddd'));
    parts.push(text(MARGIN.left - 6, y(value) + 4, short(value), 'text-anchor="end"'));
  }
  for (const value of xs) parts.push(text(x(value), floor + 16, String(value), 'text-anchor="middle"'));
  parts.push(text(MARGIN.left + plotWidth / 2, floor + 32, 'records an event', 'text-anchor="middle"'));
  for (const [i, { name, points }] of curves.entries()) {
    const colour = COLOURS[i % COLOURS.length] as string;
    const path = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
    parts.push(`<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>`);
    for (const [at, value] of points)
      parts.push(`<circle cx="${x(at).toFixed(1)}" cy="${y(value).toFixed(1)}" r="2.5" fill="${colour}"/>`);
    const legendY = HEIGHT + i * LEGEND_LINE;
    parts.push(line(MARGIN.left, legendY, MARGIN.left + 20, legendY, colour, 2));
    parts.push(text(MARGIN.left + 26, legendY + 4, name));
  }
  return parts.join('\n');
}

function text(x: number, y: number, content: string, attributes = ''): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${escaped}</text>`;
}

function line(x1: number, y1: number, x2: number, y2: number, colour: string, width = 1): string {
  return `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" stroke="${colour}" stroke-width="${width}"/>`;
}

/** 1, 2, 2.5 or 5 times a power of ten, not below. */
export function niceTop(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 2.5, 5, 10].find((each) => each * power >= value * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** Three digits are enough for an axis. */
function short(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en', { maximumSignificantDigits: 3 });
}
