/** The last replay of captures as a picture: by class and by distance, and the worst records. Absent for a job that captures nothing. */
import type { CaptureFacts, ReplayFacts } from '../captures.ts';
import { isUnavailable } from '../client.ts';
import { Card, Missing, Problem, timeText, useAsked } from '../ui.tsx';

type Output = ReplayFacts['outputs'][number];

export function ReplayCard() {
  const { value } = useAsked<CaptureFacts>('captures');
  if (value === undefined || isUnavailable(value)) return null;
  const { lost, replay } = value;
  return (
    <Card title="Last replay" aside={<span class="quiet">of captured records</span>}>
      {lost > 0 && (
        <Problem
          text={`${lost} requests and records were to be captured and could not be stored; the log says why.`}
        />
      )}
      {isUnavailable(replay) ? <Missing why={replay.unavailable} /> : <Replay replay={replay} />}
    </Card>
  );
}

function Replay({
  replay: { at, model, compared, flips, problems, outputs, worst },
}: {
  replay: ReplayFacts;
}) {
  return (
    <>
      <p>
        <span class={`badge ${problems.length === 0 ? 'succeeded' : 'failed'}`}>
          {problems.length === 0 ? 'good' : 'not good'}
        </span>{' '}
        <code>{model}</code>, {timeText(at)}: {compared} records compared, {flips} with another first class
      </p>
      {problems.map((problem) => (
        <Problem key={problem} text={problem} />
      ))}
      {outputs.map((output) => (
        <OutputPicture key={output.output} output={output} />
      ))}
      {worst.length > 0 && <Worst worst={worst} />}
    </>
  );
}

function OutputPicture({ output: { output, records, distribution, classes = [] } }: { output: Output }) {
  return (
    <>
      {classes.length > 0 && (
        <Bars
          title={`${output}: records by first class, before and now`}
          bars={classes.map(({ name, before, after, flips }) => ({
            label: name,
            value: before,
            text: `${before} → ${after}${flips > 0 ? `, ${flips} flip` : ''}`,
          }))}
          most={records}
        />
      )}
      <Bars
        title={`${output}: records by distance, as a share of the spread`}
        bars={distribution.map(({ upTo, records: value }) => ({
          label:
            upTo === undefined
              ? 'more'
              : upTo === 0
                ? 'the same'
                : `to ${Number((100 * upTo).toPrecision(3))} %`,
          value,
          text: String(value),
        }))}
        most={records}
      />
    </>
  );
}

interface Bar {
  readonly label: string;
  readonly value: number;
  readonly text: string;
}

function Bars({ title, bars, most }: { title: string; bars: readonly Bar[]; most: number }) {
  return (
    <figure class="replayed">
      <figcaption class="quiet">{title}</figcaption>
      <ol class="bars" aria-label={title}>
        {bars.map(({ label, value, text }) => (
          <li key={label}>
            <span class="label" title={label}>
              {label}
            </span>
            <span class="track" aria-hidden="true">
              {value > 0 && <span class="fill" style={{ width: `${(100 * value) / Math.max(1, most)}%` }} />}
            </span>
            <span class="value">{text}</span>
          </li>
        ))}
      </ol>
    </figure>
  );
}

function Worst({ worst }: { worst: ReplayFacts['worst'] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Worst records">
      <table>
        <thead>
          <tr>
            <th scope="col">Worst record</th>
            <th scope="col">Output</th>
            <th scope="col" class="number">
              Distance
            </th>
          </tr>
        </thead>
        <tbody>
          {worst.map(({ id, at, output, distance }, i) => (
            <tr key={i}>
              <td title={timeText(at)}>{id}</td>
              <td>{output}</td>
              <td class="number">
                {distance === null ? 'another form' : `${(100 * distance).toPrecision(3)} %`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
