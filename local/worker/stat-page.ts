/**
 * GET /stat: the counters of a job and charts of its last hour, as one page without scripts and without anything from
 * elsewhere. The browser asks for it again every ten seconds; the history is the server's.
 */
import { STEP_MS, STEPS, type Step } from '../../console/api.ts';
import { escaped } from '../../lib/codecs/html.ts';
import type { ServiceStatistics } from './statistics.ts';

const WIDTH = 720;
const HEIGHT = 120;
const REFRESH_SECONDS = 10;

const STYLE = `body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:${WIDTH}px;color:#222}
h1{font-size:1.3em}h2{font-size:1em;margin:1.5em 0 .3em}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(8em,1fr));gap:.8em;margin:0}
dt{color:#666;font-size:.85em}dd{margin:0;font-size:1.3em}
svg{width:100%;height:auto;background:#f6f6f6}polyline{fill:none;stroke:#1668b8;stroke-width:1.5}
text{font-size:11px;fill:#666}`;

export interface PageFacts {
  readonly job: string;
  readonly workers: number;
  readonly batchSize: number;
}

export function statPage(statistics: ServiceStatistics, { job, workers, batchSize }: PageFacts): string {
  const { statistic, statistic_postsink: finished } = statistics.status();
  const upSeconds = Math.floor((statistics.now() - statistics.startedMs) / 1_000);
  const steps = statistics.history();
  const deck: readonly (readonly [string, string])[] = [
    ['∑Request', count(statistic['num_data_request'])],
    ['∑Response', count(finished['num_data_request'])],
    ['∑Crash', count(finished['num_exception'])],
    ['Serving', count(statistics.serving)],
    ['Job left', count(finished['total_job_in_queue'])],
    ['Uptime', duration(upSeconds)],
    ['Workers', count(workers)],
    ['Batch size', count(batchSize)],
    ['Util', `${count(Math.round(Number(finished['util']) * 100))}%`],
    ['Cur Rq/S', rate(statistic['cur_request_per_second'])],
    ['Cur Rp/S', rate(finished['cur_request_per_second'])],
    ['Avg Rq/S', rate(statistic['avg_request_per_second'])],
    ['Max Rq/S', rate(statistic['max_request_per_second'])],
    ['Avg Rp/S', rate(finished['avg_request_per_second'])],
    ['Max Rp/S', rate(finished['max_request_per_second'])],
  ];
  const perSecond = (key: 'arrived' | 'finished') => chart(steps, (step) => (step[key] * 1_000) / STEP_MS);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="${REFRESH_SECONDS}"><title>${escaped(job)}</title><style>${STYLE}</style></head>
<body><h1>${escaped(job)}</h1>
<dl>${deck.map(([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`).join('')}</dl>
<h2>Requests per second</h2>${perSecond('arrived')}
<h2>Responses per second</h2>${perSecond('finished')}
<h2>Util</h2>${chart(steps, ({ util }) => util * 100, 100)}
<p>The last 60 minutes. This page is loaded again every ${REFRESH_SECONDS} seconds. <a href="console#live">More in the console</a></p>
</body></html>
`;
}

/** A line over the last hour, which ends at the right. @param most of the axis; default the largest value */
function chart(steps: readonly Step[], valueOf: (step: Step) => number, most?: number): string {
  const values = steps.map(valueOf);
  const top = most ?? Math.max(1, ...values);
  const points = values.map((value, i) => {
    const x = ((STEPS - values.length + i + 1) * WIDTH) / STEPS;
    return `${x.toFixed(1)},${(HEIGHT - (value / top) * HEIGHT).toFixed(1)}`;
  });
  return `<svg viewBox="0 -4 ${WIDTH} ${HEIGHT + 8}"><polyline points="${points.join(' ')}"/><text x="4" y="10">${rate(top)}</text></svg>`;
}

function count(value: unknown): string {
  return Number(value).toLocaleString('en-US');
}

function rate(value: unknown): string {
  return Number(value).toLocaleString('en-US', { maximumFractionDigits: 3 });
}

/** `3 d 4:05:06` */
function duration(seconds: number): string {
  const days = Math.floor(seconds / 86_400);
  const clock = [Math.floor(seconds / 3_600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  const [hours, ...rest] = clock.map(String);
  const time = [hours, ...rest.map((part) => part.padStart(2, '0'))].join(':');
  return days > 0 ? `${days} d ${time}` : time;
}
