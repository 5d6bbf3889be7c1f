/** The versions of the model, and which of them serves. */
import { useState } from 'preact/hooks';
import type { Done, Versions } from '../api.ts';
import { act } from '../client.ts';
import { bytesText, Card, Confirm, Empty, Loaded, timeText, useAsked } from '../ui.tsx';

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
    <Card title="Versions">
      <Loaded asked={asked}>
        {({ versions, refreshSeconds }) => (
          <>
            {versions.length === 0 && (
              <Empty title="There is none.">
                <code>cluster-serving model push</code> brings one.
              </Empty>
            )}
            <ul class="rows">
              {versions.map((one) => (
                <VersionRow key={one.version} one={one} onChoose={setChosen} />
              ))}
            </ul>
            <p class="quiet">
              Each process looks for another version every {refreshSeconds} s, when it is asked.
            </p>
          </>
        )}
      </Loaded>
      {chosen && (
        <Confirm
          title={chosen.before ? 'Roll back to this version?' : 'Let this version serve?'}
          verb={verbOf(chosen)}
          onConfirm={async () => (await act<Done>('activate', { version: chosen.version })).done}
          onClose={close}
        >
          <p>
            Version <code>{chosen.version}</code> of {timeText(chosen.uploadedAt)} serves in place of the one
            that serves now, after a check of its files and of its golden requests.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function verbOf({ before }: Version): string {
  return before ? 'Roll back' : 'Promote';
}

function VersionRow({ one, onChoose }: { one: Version; onChoose: (version: Version) => void }) {
  const { version, uploadedAt, bytes, format, batching, serves, before } = one;
  return (
    <li class="letter">
      <span class="uri">
        <code>{version}</code> {serves && <span class="badge succeeded">serves</span>}
        {before && <span class="badge">served before</span>}
      </span>
      <time class="quiet" dateTime={uploadedAt}>
        {timeText(uploadedAt)}
      </time>
      <span class="quiet result">
        {bytesText(bytes)} · from {format ?? 'an unknown source'}
        {batching !== undefined && ` · ${batching}`}
      </span>
      {!serves && format !== undefined && (
        <button
          type="button"
          class="small"
          onClick={() => onChoose(one)}
          aria-label={`${verbOf(one)} ${version}`}
        >
          {verbOf(one)}
        </button>
      )}
    </li>
  );
}
