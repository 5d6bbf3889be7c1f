/** What happened in the last hour. The service keeps it, in steps of ten seconds. */
import { useMemo } from 'preact/hooks';
import { type LiveFacts, STEP_MS, type Step, type TimerFacts } from '../api.ts';
import { Card, Empty, Loaded, timeText, useAsked } from '../ui.tsx';
import { Chart, type Line } from './chart.tsx';

export function LiveView() {
  const asked = useAsked<LiveFacts | TimerFacts>('live');
  return (
    <Loaded asked={asked}>
      {(facts) => ('steps' in facts ? <Hour facts={facts} /> : <Timers facts={facts} />)}
    </Loaded>
  );
}

/** The least that a chart shows: five minutes. */
const LEAST_STEPS = 30;

/** Up to an hour; null before the start of the service. */
function hourOf({ steps, endedAt }: LiveFacts) {
  const missing = Math.max(0, LEAST_STEPS - steps.length);
  const length = steps.length + missing;
  const times = Array.from({ length }, (_, i) => (endedAt - (length - 1 - i) * STEP_MS) / 1000);
  const line = (name: string, color: Line['color'], valueOf: (step: Step) => number | null): Line => ({
    name,
    color,
    values: [...Array.from({ length: missing }, () => null), ...steps.map(valueOf)],
  });
  return { times, line };
}

function Hour({ facts }: { facts: LiveFacts }) {
  const charts = useMemo(() => chartsOf(facts), [facts]);
  const last = facts.steps.at(-1);
  const { total, queue, workers, open, since } = facts;
  return (
    <>
      <dl class="tiles">
        <Tile name="Requests" value={countText(total.requests)} />
        <Tile name="Records" value={countText(total.finished)} />
        <Tile name="Failures" value={countText(total.failed)} isBad={total.failed > 0} />
        <Tile name="Running" value={countText(open)} />
        <Tile name="In the queue" value={countText(queue.waiting + queue.running)} />
        <Tile name="Workers" value={countText(workers)} />
        <Tile name="Utilisation" value={last ? shareText(last.util) : '–'} />
        <Tile name="Since" value={timeText(since).replace(/:\d\d$/, '')} />
      </dl>
      {facts.steps.length === 0 && (
        <Empty title="The first ten seconds are not over yet.">
          Charts begin with them, and keep an hour.
        </Empty>
      )}
      <div class="charts">
        {charts.map((chart) => (
          <Chart key={chart.title} {...chart} />
        ))}
      </div>
      <p class="quiet">
        Each point is ten seconds; the charts show up to the last 60 minutes. Percentiles are accurate to 4.5
        %.
      </p>
    </>
  );
}

function chartsOf(facts: LiveFacts) {
  const { times, line } = hourOf(facts);
  const perSecond = (count: number) => (count * 1000) / STEP_MS;
  const done = ({ finished, failed }: Step) => perSecond(finished - failed);
  return [
    {
      title: 'Records per second',
      lines: [
        line('succeeded', '--accent', done),
        line('failed', '--bad', ({ failed }) => perSecond(failed)),
      ],
      format: rateText,
    },
    {
      title: 'Requests per second',
      lines: [line('requests', '--accent', ({ requests }) => perSecond(requests))],
      format: rateText,
    },
    {
      title: 'Latency',
      lines: [
        line('p50', '--cool', ({ p50 }) => p50),
        line('p95', '--warm', ({ p95 }) => p95),
        line('p99', '--bad', ({ p99 }) => p99),
      ],
      format: timeSpan,
    },
    {
      title: 'Queue depth',
      lines: [line('messages', '--accent', ({ depth }) => depth)],
      format: countText,
      isCount: true,
    },
    {
      title: 'Queue age',
      lines: [line('longest wait', '--warm', ({ waited }) => waited)],
      format: timeSpan,
    },
    {
      title: 'Batch size',
      lines: [
        line('mean', '--accent', ({ batched, batches }) => (batches === 0 ? null : batched / batches)),
        line('largest', '--warm', ({ largest, batches }) => (batches === 0 ? null : largest)),
      ],
      format: rateText,
    },
    {
      title: 'Utilisation',
      lines: [line('busy', '--accent', ({ util }) => util)],
      format: shareText,
      most: 1,
    },
    {
      title: 'Workers',
      lines: [line('processes', '--cool', ({ workers }) => workers)],
      format: countText,
      isCount: true,
    },
  ].map((chart) => ({ ...chart, times }));
}

function Tile({ name, value, isBad = false }: { name: string; value: string; isBad?: boolean }) {
  return (
    <div class={isBad ? 'bad' : undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Timers({ facts: { timers, why } }: { facts: TimerFacts }) {
  return (
    <Card title="Since the job began">
      {timers.length === 0 ? (
        <Empty title="Nothing was measured yet.">The timers begin with the first request.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Timers">
          <table>
            <thead>
              <tr>
                <th scope="col">Timer</th>
                {['Count', 'Mean', 'Median', '99 %'].map((name) => (
                  <th key={name} scope="col" class="number">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {timers.map(({ name, count, mean, median, p99 }) => (
                <tr key={name}>
                  <td>
                    <code>{name}</code>
                  </td>
                  <td class="number">{countText(count)}</td>
                  {[mean, median, p99].map((ms, i) => (
                    <td key={i} class="number">
                      {timeSpan(ms)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="quiet">{why}</p>
    </Card>
  );
}

function countText(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString('en-US') : rateText(value);
}

function rateText(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });
}

function shareText(value: number): string {
  return `${Math.round(value * 100)} %`;
}

function timeSpan(ms: number): string {
  if (ms < 1_000) return `${rateText(ms)} ms`;
  return ms < 60_000 ? `${rateText(ms / 1_000)} s` : `${rateText(ms / 60_000)} min`;
}
