/** The pictures of docs/growth.md: bench/growth/plot.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOST_LINES, type Plot, plotSvg } from '../../../bench/growth/plot.ts';

const LINEAR: Plot = {
  title: 'time by records',
  xLabel: 'records',
  yLabel: 'ms',
  lines: [{ name: 'ours', points: [1, 10, 100, 1_000].map((x) => ({ x, y: x / 10 })) }],
};

const circles = (svg: string) =>
  [...svg.matchAll(/<circle class="mark" cx="([\d.]+)" cy="([\d.]+)"/g)]
    .map(([, x, y]) => ({ x: Number(x), y: Number(y) }))
    // The first is that of the legend.
    .slice(1);

/** Tags that are opened and not closed, or the other way round. */
function unbalanced(svg: string): string[] {
  const open: string[] = [];
  for (const [, end, name = '', self] of svg.matchAll(/<(\/?)([a-zA-Z]+)[^>]*?(\/?)>/g)) {
    if (self) continue;
    if (!end) open.push(name);
    else if (open.pop() !== name) return [name];
  }
  return open;
}

test('ten times as much is as far from one to ten as from a hundred to a thousand', () => {
  const [a, b, c, d] = circles(plotSvg(LINEAR));
  assert.ok(a && b && c && d);
  assert.ok(Math.abs(b.x - a.x - (d.x - c.x)) < 0.3);
  assert.ok(Math.abs(a.y - b.y - (c.y - d.y)) < 0.3);
  assert.ok(b.x > a.x);
  assert.ok(b.y < a.y, 'larger values stand higher');
});

test('the dotted line passes through the last point and is as steep as what is linear', () => {
  const svg = plotSvg(LINEAR);
  const [, x1, y1, x2, y2] = (
    /class="guide"[^>]* d="M([\d.-]+) ([\d.-]+) L([\d.-]+) ([\d.-]+)"/.exec(svg) ?? []
  ).map(Number) as [number, number, number, number, number];
  for (const { x, y } of circles(svg)) {
    const onLine = y1 + ((x - x1) / (x2 - x1)) * (y2 - y1);
    assert.ok(Math.abs(onLine - y) < 0.5, `${onLine} ${y}`);
  }
});

test('every point lies inside the frame, and every number of the picture is one', () => {
  const svg = plotSvg({
    ...LINEAR,
    lines: [
      {
        name: 'far',
        points: [
          { x: 0.003, y: 4e-7, low: 1e-7, high: 5 },
          { x: 8e9, y: 7e11 },
        ],
      },
    ],
  });
  assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
  const [, x, y, width, height] = (
    /class="frame" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"/.exec(svg) ?? []
  ).map(Number) as [number, number, number, number, number];
  for (const mark of circles(svg)) {
    assert.ok(mark.x >= x && mark.x <= x + width, `${mark.x}`);
    assert.ok(mark.y >= y && mark.y <= y + height, `${mark.y}`);
  }
});

test('points that have no logarithm are left out, and the others are drawn', () => {
  const points = [
    { x: 0, y: 1 },
    { x: 10, y: 0 },
    { x: 10, y: Number.NaN },
    { x: 10, y: 2 },
    { x: 20, y: 4 },
  ];
  assert.equal(circles(plotSvg({ ...LINEAR, lines: [{ name: 'some', points }] })).length, 2);
});

test('a plot of nothing is refused, as is one with more lines than marks', () => {
  assert.throws(() => plotSvg({ ...LINEAR, lines: [{ name: 'none', points: [] }] }), /nothing to show/);
  const lines = Array.from({ length: MOST_LINES + 1 }, () => LINEAR.lines[0] as Plot['lines'][number]);
  assert.throws(() => plotSvg({ ...LINEAR, lines }), /at most 5 lines, got 6/);
});

test('equal values of one size still have axes', () => {
  const svg = plotSvg({ ...LINEAR, lines: [{ name: 'one', points: [{ x: 10, y: 10 }] }] });
  assert.doesNotMatch(svg, /NaN|Infinity/);
  assert.equal(circles(svg).length, 1);
});

test('the lines differ in colour and in mark, and have others on dark paper', () => {
  const lines = Array.from({ length: MOST_LINES }, (_, i) => ({
    name: `line ${i}`,
    points: LINEAR.lines[0]?.points ?? [],
  }));
  const svg = plotSvg({ ...LINEAR, lines });
  const [light = '', dark = ''] = svg.split('@media (prefers-color-scheme: dark)');
  const colours = (style: string) =>
    [...style.matchAll(/\.c\d \{ color: (#\w{6}) \}/g)].map(([, colour]) => colour);
  assert.equal(new Set(colours(light)).size, MOST_LINES);
  assert.equal(new Set(colours(dark)).size, MOST_LINES);
  assert.equal(new Set([...colours(light), ...colours(dark)]).size, 2 * MOST_LINES);
  // Those of the legend: each mark's corners, as seen from its first one.
  const marks = [...svg.matchAll(/<(?:circle class="mark"|polygon class="mark" points="([^"]*)")/g)];
  const shapes = marks.slice(0, MOST_LINES).map(([, points = '']) => {
    const corners = points.split(' ').map((corner) => corner.split(',').map(Number));
    const [x0 = 0, y0 = 0] = corners[0] ?? [];
    return corners.map(([x = 0, y = 0]) => `${Math.round(x - x0)},${Math.round(y - y0)}`).join(' ');
  });
  assert.equal(new Set(shapes).size, MOST_LINES, shapes.join('; '));
});

test('texts cannot break out of the picture', () => {
  const svg = plotSvg({ ...LINEAR, title: '<b>&"', xLabel: 'a < b', lines: LINEAR.lines });
  assert.match(svg, /&lt;b&gt;&amp;&quot;/);
  assert.match(svg, /a &lt; b/);
  assert.deepEqual(unbalanced(svg), []);
});

test('a line through the spread of its repeats stands at each point that has one', () => {
  const points = [
    { x: 1, y: 10, low: 5, high: 20 },
    { x: 10, y: 100 },
  ];
  const svg = plotSvg({ ...LINEAR, lines: [{ name: 'spread', points }] });
  assert.equal([...svg.matchAll(/class="range"/g)].length, 1);
});
