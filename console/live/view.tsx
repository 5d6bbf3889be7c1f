/** What happened in the last minutes, up to an hour. The service keeps it, in steps of ten seconds. */
import type { ComponentChildren } from 'preact';
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

/** Of a minute. The axis has whole ones, five at least. */
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
      <Numbers title={`Since the start, ${timeText(since).slice(0, -3)}`}>
        <Tile name="Requests" value={countText(total.requests)} />
        <Tile name="Records" value={countText(total.finished)} />
        <Tile name="Failed records" value={countText(total.failed)} isBad={total.failed > 0} />
      </Numbers>
      <Numbers title={last ? `At ${clockText(endedAt / 1000)}` : 'In a few seconds'}>
        <Tile name="Messages in the queue" value={inQueue === undefined ? '–' : countText(inQueue)} />
        <Tile name="Workers" value={last ? countText(last.workers) : '–'} />
        <Tile name="Workers busy" value={last ? shareText(last.util) : '–'} />
      </Numbers>
      <header class="span">
        <h2>{span[0]?.toUpperCase() + span.slice(1)}</h2>
        <span class="quiet">{SPAN_NOTE}</span>
      </header>
      {last === undefined && (
        <Empty title="The charts begin in a few seconds.">
          Their first point comes when the service has run for ten seconds.
        </Empty>
      )}
      <div class="charts">
        {charts.map((chart) => (
          <Chart key={chart.title} {...chart} />
        ))}
      </div>
      <Meanings />
    </>
  );
}

const SPAN_NOTE = 'One point every ten seconds, by the clock of your browser. The charts grow to 60 minutes.';

const MEANINGS = {
  'Request': 'a call that asks for predictions, over HTTP or gRPC; one request may hold many records.',
  'Record': 'one thing to predict: a picture, a text, a row. It came in a request or through the queue.',
  'Latency': 'from the arrival of a record at the model to its answer, the wait for a free worker included. p95 is the time within which 95 of 100 records were answered; it is accurate to 4.5 %.',
  'Messages in the queue': 'those that wait, and those that are being worked on. One message is one record, or many that were sent together.',
  'Longest wait': 'how long a message had been in the queue when it was taken out; the longest of the ten seconds.',
  'Batch': 'records that ran through the model together.',
  'Workers': 'the processes that run the model. They are 100 % busy when all of them ran all the time.',
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
  const perSecond = (count: number) => (count * 1000) / STEP_MS;
  const done = ({ finished, failed }: Step) => perSecond(finished - failed);
  const charts = [
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
      title: 'Latency of a record',
      lines: [
        line('p50 (median)', '--cool', ({ p50 }) => p50),
        line('p95', '--warm', ({ p95 }) => p95),
        line('p99', '--bad', ({ p99 }) => p99),
      ],
      format: timeSpan,
    },
    {
      title: 'Messages in the queue',
      lines: [line('waiting or running', '--accent', ({ depth }) => depth)],
      format: countText,
      isCount: true,
    },
    {
      title: 'Longest wait in the queue',
      lines: [line('of a message', '--warm', ({ waited }) => waited)],
      format: timeSpan,
    },
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
      lines: [line('share of their time', '--accent', ({ util }) => util)],
      format: shareText,
      most: 1,
    },
    {
      title: 'Workers',
      lines: [line('processes', '--cool', ({ workers }) => workers)],
      format: countText,
      isCount: true,
    },
  ].map((chart) => ({ ...chart, span, times }));
  return { span, charts };
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
