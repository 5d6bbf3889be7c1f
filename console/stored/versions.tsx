/** The versions of the model, and which of them serves. */
import { useState } from 'preact/hooks';
import type { Done, Versions } from '../api.ts';
import { act } from '../client.ts';
import { batchingText, bytesText, Card, Confirm, Empty, Loaded, timeText, useAsked, Words } from '../ui.tsx';
import { FurtherTrials, Trial } from './trial.tsx';

type Version = Versions['versions'][number];

export function VersionsView({ onActivated }: { onActivated: () => Promise<void> }) {
  const asked = useAsked<Versions>('versions');
  const [chosen, setChosen] = useState<Version>();
  const close = () => {
    setChosen(undefined);
    void asked.again();
    void onActivated();
  };
  return (
    <Card title="Versions" aside={<span class="quiet">newest first</span>}>
      <Loaded asked={asked}>
        {({ versions, trial, further, refreshSeconds }) => (
          <>
            <Trial trial={trial} onDone={close} />
            <FurtherTrials further={further} />
            {versions.length === 0 && (
              <Empty title="There is none.">
                <code>cluster-serving model push</code> brings one.
              </Empty>
            )}
            {trial.canary && (
              <p class="quiet" id={HELD}>
                No other version can serve while the canary <code>{trial.canary.version}</code> runs: promote
                or end it first.
              </p>
            )}
            <ul class="rows">
              {versions.map((one) => (
                <VersionRow key={one.version} one={one} isHeld={!!trial.canary} onChoose={setChosen} />
              ))}
            </ul>
            <p class="quiet">
              It can take {refreshSeconds} s until every process serves a version that was just chosen.
            </p>
          </>
        )}
      </Loaded>
      {chosen && (
        <Confirm
          title={chosen.before ? 'Roll back to this version?' : 'Promote this version?'}
          verb={verbOf(chosen)}
          onConfirm={async () => (await act<Done>('activate', { version: chosen.version })).done}
          onClose={close}
        >
          <p>
            Version <code>{chosen.version}</code>, uploaded {timeText(chosen.uploadedAt)}, then answers all
            requests instead of the one that serves now. First its files are checked, and its golden requests
            (stored questions with their right answers), if it has any.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function verbOf({ before }: Version): string {
  return before ? 'Roll back' : 'Promote';
}

/** The element that says why no version can be chosen. */
const HELD = 'held';

interface RowOptions {
  readonly one: Version;
  /** A canary runs, beside which no other version takes over. */
  readonly isHeld: boolean;
  readonly onChoose: (version: Version) => void;
}

function VersionRow({ one, isHeld, onChoose }: RowOptions) {
  const { version, uploadedAt, bytes, format, batching, serves, before, trial } = one;
  return (
    <li class="letter">
      <span class="uri">
        <code>{version}</code> {serves && <span class="badge succeeded">serves now</span>}
        {before && <span class="badge">served before</span>}
        {trial !== undefined && <span class="badge">{trial}</span>}
      </span>
      <time class="quiet" dateTime={uploadedAt} title="Uploaded">
        {timeText(uploadedAt)}
      </time>
      <span class="quiet result">
        {bytesText(bytes)} · {format === undefined ? 'of an unknown format' : `imported from ${format}`}
        {batching !== undefined && (
          <>
            {' '}
            · <Words text={batchingText(batching)} />
          </>
        )}
      </span>
      {!serves && trial !== 'canary' && format !== undefined && (
        <button
          type="button"
          class="small"
          disabled={isHeld}
          aria-describedby={isHeld ? HELD : undefined}
          onClick={() => onChoose(one)}
          aria-label={`${verbOf(one)} ${version}`}
        >
          {verbOf(one)}
        </button>
      )}
    </li>
  );
}
