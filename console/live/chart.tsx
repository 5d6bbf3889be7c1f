/** A chart of the last minutes. The lines are drawn on a canvas; what they say stands beside it as text, too. */
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clockText } from '../ui.tsx';

export interface Line {
  readonly name: string;
  /** A color of style.css. */
  readonly color: '--accent' | '--bad' | '--warm' | '--cool';
  readonly values: readonly (number | null)[];
}

interface ChartOptions {
  readonly title: string;
  /** A remark after the title. */
  readonly note?: string;
  /** The time that the axis shows, as `last 5 minutes`. */
  readonly span: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  /** As it is read beside the chart. */
  readonly format: (value: number) => string;
  /** The end of the axis. Default: what the values need. */
  readonly most?: number;
  /** The least that the axis reaches. Default 1. */
  readonly least?: number;
  /** True if all values are whole numbers. */
  readonly isCount?: boolean;
  /** Between two lines of the axis: one of these. Default: round decimal numbers. */
  readonly ticks?: readonly number[];
}

const HEIGHT = 132;
/** A character of a label. */
const LABEL_PX = 6.5;
/** Between two times of the axis: close enough that the axis of a phone has two at least. */
const MINUTES = [1, 2, 3, 5, 10, 15];

export function Chart(options: ChartOptions) {
  const { title, note, span, times, lines, format, most, least = 1, isCount = false, ticks } = options;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const dark = useDark();
  const shape = lines.map(({ name }) => name).join();
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = new uPlot(
      optionsOf(element, lines, { format, most, least, isCount, ticks, onCursor: setAt }),
      [[0]],
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, dark, most]);
  useEffect(() => {
    plot.current?.setData([times, ...lines.map(({ values }) => values)] as uPlot.AlignedData);
  }, [times, lines, dark]);
  const shown = at ?? times.length - 1;
  const text = lines.map(({ name, values }) => `${name} ${valueText(values[shown], format)}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        <h2>
          {title} {note !== undefined && <span class="quiet">{note}</span>}
        </h2>
        <span class="keys">
          {at !== null && <time>{clockText(times[at] ?? 0)}</time>}
          {lines.map(({ name, color, values }) => (
            <span key={name}>
              <i style={{ background: `var(${color})` }} /> {name} <b>{valueText(values[shown], format)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div
        ref={place}
        role="img"
        aria-label={`${title}, ${span}; at ${clockText(times[shown] ?? 0)}: ${text}`}
        class="plot"
      />
    </figure>
  );
}

function valueText(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '–' : format(value);
}

interface Drawn {
  readonly format: (value: number) => string;
  readonly most: number | undefined;
  readonly least: number;
  readonly isCount: boolean;
  readonly ticks: readonly number[] | undefined;
  readonly onCursor: (index: number | null) => void;
}

function optionsOf(
  element: HTMLElement,
  lines: readonly Line[],
  { format, most, least, isCount, ticks, onCursor }: Drawn,
): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color('--quiet'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, __, max) => [0, most ?? Math.max(least, (max ?? 0) * 1.08)] } },
    axes: [
      {
        ...axis,
        size: 22,
        space: 44,
        incrs: MINUTES.map((minutes) => minutes * 60),
        values: (_, splits) => splits.map((seconds) => clockText(seconds).slice(0, 5)),
      },
      {
        ...axis,
        // No label is cut, however large.
        size: (_, labels) =>
          Math.max(52, 14 + LABEL_PX * Math.max(...(labels ?? []).map((one) => one.length))),
        space: 34,
        ...(ticks && { incrs: [...ticks] }),
        values: (_, splits) =>
          splits.map((value) => (isCount && !Number.isInteger(value) ? '' : format(value))),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.name,
        stroke: color(line.color),
        width: 1.5,
        points: { show: true, size: 4, fill: color(line.color), filter: alone },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [(self) => onCursor(self.cursor.idx ?? null)] },
  };
}

/** The places of values without neighbors, which no line would show. */
function alone(self: uPlot, series: number): number[] {
  const values = self.data[series] ?? [];
  const isThere = (i: number) => values[i] !== null && values[i] !== undefined;
  return Array.from(values.keys()).filter((i) => isThere(i) && !isThere(i - 1) && !isThere(i + 1));
}

/** Canvases do not follow the colours of the page by themselves. */
function useDark(): boolean {
  const query = matchMedia('(prefers-color-scheme: dark)');
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const follow = () => setDark(query.matches);
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, []);
  return dark;
}
