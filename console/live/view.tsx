/** The last minutes, up to an hour. The service keeps them in steps of ten seconds. */
import type { ComponentChildren, ComponentProps } from 'preact';
import { useMemo } from 'preact/hooks';
import { type LiveFacts, STEP_MS, type Step, type TimerFacts } from '../api.ts';
import { Card, clockText, Empty, Help, Loaded, timeText, useAsked } from '../ui.tsx';
import { Chart, type Line } from './chart.tsx';

export function LiveView() {
  const asked = useAsked<LiveFacts | TimerFacts>('live');
  return (
    <Loaded asked={asked}>
      {(facts) => ('steps' in facts ? <Hour facts={facts} /> : <Timers facts={facts} />)}
    </Loaded>
  );
}

/** Steps in a minute. The axis shows whole minutes, at least five. */
const MINUTE_STEPS = 60_000 / STEP_MS;
const LEAST_MINUTES = 5;

/** Up to an hour; null before the start of the service. */
function hourOf({ steps, endedAt }: LiveFacts) {
  const minutes = Math.max(LEAST_MINUTES, Math.ceil(steps.length / MINUTE_STEPS));
  const length = minutes * MINUTE_STEPS;
  const missing = length - steps.length;
  const times = Array.from({ length }, (_, i) => (endedAt - (length - 1 - i) * STEP_MS) / 1000);
  const line = (name: string, color: Line['color'], valueOf: (step: Step) => number | null): Line => ({
    name,
    color,
    values: [...Array.from({ length: missing }, () => null), ...steps.map(valueOf)],
  });
  return { span: `last ${minutes} minutes`, times, line };
}

function Hour({ facts }: { facts: LiveFacts }) {
  const { charts, span } = useMemo(() => chartsOf(facts), [facts]);
  const last = facts.steps.at(-1);
  const { total, since, endedAt } = facts;
  // The last point of each chart.
  const inQueue = last?.depth ?? undefined;
  return (
    <>
      <div class="overview">
        <Numbers title={`Since the start, ${timeText(since).slice(0, -3)}, ${NO_JOBS}`}>
          <Tile name="Requests" value={countText(total.requests)} />
          <Tile name="Records" value={countText(total.finished)} />
          <Tile name="Failed records" value={countText(total.failed)} isBad={total.failed > 0} />
        </Numbers>
        <Numbers title={last ? `At ${clockText(endedAt / 1000)}` : 'Not measured yet'}>
          <Tile name="In the queue" value={inQueue === undefined ? '–' : countText(inQueue)} />
          <Tile name="Workers" value={last ? countText(last.workers) : '–'} />
          <Tile name="Workers busy" value={last ? shareText(last.util) : '–'} />
        </Numbers>
      </div>
      {last === undefined ? (
        <Empty title="The charts begin in a few seconds.">
          Their first point comes when the service has run for ten seconds.
        </Empty>
      ) : (
        <>
          <header class="span">
            <h2>{span[0]?.toUpperCase() + span.slice(1)}</h2>
            <span class="quiet">{SPAN_NOTE}</span>
          </header>
          <div class="charts">
            {charts.map((chart) => (
              <Chart key={chart.title} {...chart} />
            ))}
          </div>
        </>
      )}
      <Meanings />
    </>
  );
}

/** These counters are those of GET /metrics, which has none of jobs. */
const NO_JOBS = 'without jobs over files';

const SPAN_NOTE =
  'One point every ten seconds, by the clock of your browser. The charts show up to 60 minutes.';

const MEANINGS = {
  Request: 'a call that asks for predictions, over HTTP or gRPC; one request may hold many records.',
  Record:
    'one thing to predict: a picture, a text, a row. It came in a request or through the queue. Rows of jobs over files are counted in the times, the batches and the workers alone.',
  'Time to answer':
    'from the arrival of a record at the model to its answer, the wait for a free worker included. Half of the records were faster than the median, and 95 of 100 took no longer than that line; each is accurate to 4.5 %.',
  'Messages in the queue':
    'those that wait, and those that are being worked on. One message is one record, or many that were sent together.',
  'Longest wait':
    'how long a message had been in the queue when it was taken out; the longest of the ten seconds.',
  Batch: 'records that ran through the model together.',
  Workers: 'the processes that run the model. They are 100 % busy when all of them ran all the time.',
};

function Meanings() {
  return (
    <Help about="What do these numbers mean?">
      <dl class="meanings">
        {Object.entries(MEANINGS).map(([name, meaning]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Help>
  );
}

function Numbers({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="numbers">
      <h2>{title}</h2>
      <dl class="tiles">{children}</dl>
    </section>
  );
}

function chartsOf(facts: LiveFacts) {
  const { span, times, line } = hourOf(facts);
  const charts = [...workCharts(line), ...queueCharts(line), ...workerCharts(line)];
  return { span, charts: charts.map((chart) => ({ ...chart, span, times })) };
}

type LineOf = ReturnType<typeof hourOf>['line'];
type ChartFacts = Omit<ComponentProps<typeof Chart>, 'span' | 'times'>;

/** Round ms, seconds and minutes. */
const TIME_TICKS = (
  [
    [1, [1, 2, 5, 10, 20, 50, 100, 200, 500]],
    [1_000, [1, 2, 5, 10, 20, 30]],
    [60_000, [1, 2, 5, 10, 20, 30, 60, 120, 360, 720]],
  ] as const
).flatMap(([unit, counts]) => counts.map((count) => count * unit));

function workCharts(line: LineOf): ChartFacts[] {
  const perSecond = (count: number) => (count * 1000) / STEP_MS;
  return [
    {
      title: 'Records per second',
      note: NO_JOBS,
      lines: [
        line('succeeded', '--accent', ({ finished, failed }) => perSecond(finished - failed)),
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
      title: 'Time to answer a record',
      lines: [
        line('median', '--cool', ({ p50 }) => p50),
        line('95 of 100', '--warm', ({ p95 }) => p95),
        line('99 of 100', '--bad', ({ p99 }) => p99),
      ],
      format: timeSpan,
      ticks: TIME_TICKS,
    },
  ];
}

function queueCharts(line: LineOf): ChartFacts[] {
  return [
    {
      title: 'Messages in the queue',
      lines: [line('messages', '--accent', ({ depth }) => depth)],
      format: countText,
      isCount: true,
    },
    {
      title: 'Longest wait in the queue',
      lines: [line('longest wait', '--warm', ({ waited }) => waited)],
      format: timeSpan,
      ticks: TIME_TICKS,
    },
  ];
}

function workerCharts(line: LineOf): ChartFacts[] {
  return [
    {
      title: 'Records in a batch',
      lines: [
        line('mean', '--accent', ({ batched, batches }) => (batches === 0 ? null : batched / batches)),
        line('largest', '--warm', ({ largest, batches }) => (batches === 0 ? null : largest)),
      ],
      format: rateText,
    },
    {
      title: 'Workers busy',
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
  ];
}

function Tile({ name, value, isBad = false }: { name: string; value: string; isBad?: boolean }) {
  return (
    <div class={isBad ? 'bad' : undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Explains the timers of GET /metrics, which keep their names of 0.11. */
const MEASURED: Readonly<Record<string, string>> = {
  'zoo.serving.request.overall': 'A request for predictions',
  'zoo.serving.request.predict': 'A run of the model',
  'zoo.serving.request.metrics': 'A request for these times',
  'zoo.serving.redis.wait': 'A record in the queue',
  'zoo.serving.redis.put': 'Writing of results',
  'zoo.serving.redis.get': 'Reading of a result',
};

function Timers({ facts: { timers, why } }: { facts: TimerFacts }) {
  return (
    <Card title="Times since the job began">
      {timers.length === 0 ? (
        <Empty title="Nothing was measured yet.">The timers begin with the first request.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Timers">
          <table>
            <thead>
              <tr>
                <th scope="col">What</th>
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
                    {MEASURED[name] ?? name}
                    <br />
                    <code class="quiet">{name}</code>
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
