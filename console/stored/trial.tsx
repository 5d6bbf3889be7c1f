/** The versions on trial, what was found of them, and the buttons that end a trial. */
import { useState } from 'preact/hooks';
import type { Done, FurtherTrial, TrialFacts } from '../api.ts';
import { act } from '../client.ts';
import { Confirm, timeText } from '../ui.tsx';

type Canary = NonNullable<TrialFacts['canary']>;
type Shadow = NonNullable<TrialFacts['shadow']>;

interface Chosen {
  readonly action: 'promote' | 'end';
  readonly version: string;
}

const ACTIONS = {
  promote: {
    verb: 'Promote',
    title: 'Serve the version on trial?',
    about:
      'then answers all requests instead of the one that serves now. First it is asked its golden requests, if it has any.',
  },
  end: {
    verb: 'End',
    title: 'End this trial?',
    about: 'then answers nothing any more. The version that serves now stays.',
  },
} as const;

/** @param onDone called when a trial may have ended */
export function Trial({ trial, onDone }: { trial: TrialFacts; onDone: () => void }) {
  const [chosen, setChosen] = useState<Chosen>();
  const { canary, shadow, ended } = trial;
  return (
    <>
      {(canary || shadow) && (
        <ul class="rows" aria-label="On trial">
          {canary && (
            <li class="letter">
              <span class="uri">
                <code>{canary.version}</code> <span class="badge">canary, {percentText(canary.share)}</span>
              </span>
              <Since time={canary.since} />
              <span class="quiet result">{canaryText(canary)}</span>
              <Buttons version={canary.version} onChoose={setChosen} />
            </li>
          )}
          {shadow && (
            <li class="letter">
              <span class="uri">
                <code>{shadow.version}</code> <span class="badge">shadow</span>
              </span>
              <Since time={shadow.since} />
              <span class="quiet result">{shadowText(shadow)}</span>
              {!canary && <Buttons version={shadow.version} onChoose={setChosen} />}
            </li>
          )}
        </ul>
      )}
      {ended && (
        <p class="quiet">
          Version <code>{ended.version}</code> was {ended.end} at {timeText(ended.at)}: {ended.reason}
        </p>
      )}
      {chosen && (
        <Confirm
          title={ACTIONS[chosen.action].title}
          verb={ACTIONS[chosen.action].verb}
          onConfirm={async () => (await act<Done>(chosen.action, { version: chosen.version })).done}
          onClose={() => {
            setChosen(undefined);
            onDone();
          }}
        >
          <p>
            Version <code>{chosen.version}</code> {ACTIONS[chosen.action].about}
          </p>
        </Confirm>
      )}
    </>
  );
}

/** Those of other models of the job, which the command line ends. */
export function FurtherTrials({ further }: { further: readonly FurtherTrial[] }) {
  if (further.length === 0) return null;
  return (
    <ul class="rows" aria-label="Further models">
      {further.map(({ model, canary, shadow }) => (
        <li key={model} class="letter">
          <span class="uri">
            <code>{model}</code> <span class="badge">{badgeText(canary, shadow)}</span>
          </span>
          {canary && <span class="quiet result">{canaryText(canary)}</span>}
          {shadow && <span class="quiet result">{shadowText(shadow)}</span>}
          <code class="quiet">cluster-serving model trial --model {model}</code>
        </li>
      ))}
    </ul>
  );
}

function badgeText(canary: Canary | undefined, shadow: Shadow | undefined): string {
  if (canary) return `canary ${canary.version}, ${percentText(canary.share)}`;
  return shadow ? `shadow ${shadow.version}` : '';
}

function Since({ time }: { time: string }) {
  return (
    <time class="quiet" dateTime={time} title="On trial since">
      {timeText(time)}
    </time>
  );
}

function Buttons({ version, onChoose }: { version: string; onChoose: (chosen: Chosen) => void }) {
  return (
    <span class="pair">
      {(['promote', 'end'] as const).map((action) => (
        <button
          key={action}
          type="button"
          class="small"
          onClick={() => onChoose({ action, version })}
          aria-label={`${ACTIONS[action].verb} the trial of ${version}`}
        >
          {ACTIONS[action].verb}
        </button>
      ))}
    </span>
  );
}

function canaryText({ found }: Canary): string {
  if (!found) return 'It has not been looked at yet.';
  const golden = { passed: 'passed', none: 'there are none', asking: 'being asked' }[found.golden];
  return `Golden requests: ${golden} · ${found.verdict}: ${found.reason}`;
}

function shadowText({ found }: Shadow): string {
  if (!found) return 'It has not been asked yet.';
  const { compared, flips, differ, otherEnds, notReplayable, problem } = found;
  return [
    `${compared} captured records compared`,
    `${flips} have another first class`,
    `${differ} differ beyond the tolerance`,
    `${otherEnds} end in another way`,
    ...(notReplayable > 0 ? [`${notReplayable} could not be asked, because an input was not captured`] : []),
    ...(problem === undefined ? [] : [`the last replay failed: ${problem}`]),
  ].join(' · ');
}

/** As `lib/contract/share.ts` writes it. */
function percentText(share: number): string {
  return `${Number((share * 100).toPrecision(3))} %`;
}
