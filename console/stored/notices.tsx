/** What the targets of `notify` wait for, what was given up, and a button that sends it again. Absent for a job without targets. */
import { useState } from 'preact/hooks';
import type { Done, NoticeFacts, TargetFacts } from '../api.ts';
import { act, isUnavailable } from '../client.ts';
import { Card, Confirm, useAsked } from '../ui.tsx';

export function NoticesCard() {
  const asked = useAsked<NoticeFacts>('notices');
  const [chosen, setChosen] = useState<TargetFacts>();
  const { value } = asked;
  if (value === undefined || isUnavailable(value)) return null;
  const close = () => {
    setChosen(undefined);
    void asked.again();
  };
  return (
    <Card title="Notices" aside={<span class="quiet">to the targets of records</span>}>
      <p class="quiet">
        {value.waiting + value.outbox} wait, {value.givenUp} given up
      </p>
      <ul class="rows">
        {value.targets.map((target) => (
          <TargetRow key={target.name} target={target} onResume={setChosen} />
        ))}
      </ul>
      {chosen && (
        <Confirm
          title={`Send the notices of ${chosen.name} again?`}
          verb="Resume"
          onConfirm={async () => (await act<Done>('resume', { target: chosen.name })).done}
          onClose={close}
        >
          <p>
            Its pause ends, and what was given up is sent again, for another day, under the ids that it had.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function TargetRow({ target, onResume }: { target: TargetFacts; onResume: (target: TargetFacts) => void }) {
  const { name, waiting, givenUp, reason, isPaused } = target;
  return (
    <li class="letter">
      <span class="uri">
        {name} {isPaused && <span class="badge">paused</span>}
      </span>
      <span class="quiet result">
        {waiting} wait · {givenUp} given up{reason !== undefined && `: ${reason}`}
      </span>
      {(isPaused || givenUp > 0) && (
        <button type="button" class="small" onClick={() => onResume(target)} aria-label={`Resume ${name}`}>
          Resume
        </button>
      )}
    </li>
  );
}
