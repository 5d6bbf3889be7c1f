/** The last records of the queue, and the dead letters. */
import { useState } from 'preact/hooks';
import type { DeadLetterPage, Done, RecentRecords, RecordFacts } from '../api.ts';
import { act, resultOf } from '../client.ts';
import { indented, shownText } from '../try/answer.ts';
import { type Asked, bytesText, Card, Confirm, Empty, Loaded, Problem, timeText, useAsked } from '../ui.tsx';

export function RecordsView() {
  const records = useAsked<RecentRecords>('records');
  return (
    <div class="stack">
      <Card title="Recent records" aside={<span class="quiet">of the queue</span>}>
        <Loaded asked={records}>{(value) => <Records records={value.records} />}</Loaded>
      </Card>
      <DeadLetters onReplayed={records.again} />
    </div>
  );
}

function Records({ records }: { records: readonly RecordFacts[] }) {
  const [sought, setSought] = useState('');
  if (records.length === 0) {
    return (
      <Empty title="No record has come through the queue yet.">
        Enqueue one with the SDK, <code>cluster-serving enqueue</code> or <code>POST /predictions</code>. The last 200 since the
        start are listed here; their results stay in Redis.
      </Empty>
    );
  }
  const found = records.filter(({ uri, code }) => `${uri} ${code ?? ''}`.includes(sought));
  return (
    <>
      <label class="field search">
        <span>Find a uri or an error code</span>
        <input type="search" value={sought} onInput={(event) => setSought(event.currentTarget.value)} />
      </label>
      <ul class="rows">
        {found.map((record) => (
          <RecordRow key={`${record.identity} ${record.finishedAt}`} record={record} />
        ))}
      </ul>
      {found.length === 0 && <p class="quiet">None of the last {records.length} records matches.</p>}
    </>
  );
}

function RecordRow({ record }: { record: RecordFacts }) {
  const { uri, status, finishedAt, model, result, error, code, identity } = record;
  const [full, setFull] = useState<{ text?: string; error?: string }>();
  const load = async () => {
    try {
      setFull({ text: indented(await resultOf(uri, identity)) });
    } catch (failure) {
      setFull({ error: (failure as Error).message });
    }
  };
  return (
    <li>
      <details
        onToggle={(event) => {
          if (event.currentTarget.open && !full?.text) void load();
        }}
      >
        <summary>
          <span class={`badge ${status}`}>{status}</span>
          <span class="uri">{uri}</span>
          <time class="quiet" dateTime={finishedAt}>
            {timeText(finishedAt)}
          </time>
          <span class="quiet result">{status === 'failed' ? `${code}: ${error}` : result || 'a value'}</span>
        </summary>
        <div class="detail">
          {model !== '' && (
            <p class="quiet">
              By version <code>{model}</code>, identity <code>{identity}</code>
            </p>
          )}
          {full === undefined && <p class="quiet">Loading…</p>}
          {full?.error !== undefined && <Problem text={full.error} />}
          {full?.text !== undefined && <Full text={full.text} />}
        </div>
      </details>
    </li>
  );
}

function Full({ text }: { text: string }) {
  const shown = shownText('result', text);
  return shown.kind === 'text' ? <pre tabIndex={0}>{shown.text}</pre> : null;
}

type Letter = DeadLetterPage['letters'][number];

function DeadLetters({ onReplayed }: { onReplayed: () => Promise<void> }) {
  const [after, setAfter] = useState<string>();
  const asked = useAsked<DeadLetterPage>(`dead-letters${after ? `?after=${encodeURIComponent(after)}` : ''}`);
  return (
    <Card title="Dead letters" aside={<span class="quiet">failed too often, kept in S3</span>}>
      <Loaded asked={asked}>
        {(page) => <Letters page={page} asked={asked} onReplayed={onReplayed} onNext={setAfter} isFirst={!after} />}
      </Loaded>
    </Card>
  );
}

interface LettersOptions {
  readonly page: DeadLetterPage;
  readonly asked: Asked<DeadLetterPage>;
  readonly onReplayed: () => Promise<void>;
  readonly onNext: (after: string | undefined) => void;
  readonly isFirst: boolean;
}

function Letters({ page, asked, onReplayed, onNext, isFirst }: LettersOptions) {
  const [chosen, setChosen] = useState<Letter>();
  const { letters, next, noReplay } = page;
  const close = () => {
    setChosen(undefined);
    void asked.again();
    void onReplayed();
  };
  return (
    <>
      {letters.length === 0 && (
        <Empty title="There are none.">A record that fails again and again is put here, with its message.</Empty>
      )}
      {noReplay !== undefined && <p class="quiet">{noReplay}</p>}
      <ul class="rows">
        {letters.map((letter) => (
          <li key={letter.id} class="letter">
            <span class="uri">{letter.uri ?? '(no uri)'}</span>
            <time class="quiet" dateTime={letter.archivedAt}>
              {timeText(letter.archivedAt)}
            </time>
            <span class="quiet result">
              {letter.reason} · {letter.attempts ?? '?'} attempts · {bytesText(letter.bytes)}
            </span>
            {noReplay === undefined && (
              <button type="button" class="small" onClick={() => setChosen(letter)} aria-label={`Replay ${letter.uri ?? letter.id}`}>
                Replay
              </button>
            )}
          </li>
        ))}
      </ul>
      <p>
        {!isFirst && (
          <button type="button" onClick={() => onNext(undefined)}>
            From the beginning
          </button>
        )}{' '}
        {next !== undefined && (
          <button type="button" onClick={() => onNext(next)}>
            More
          </button>
        )}
      </p>
      {chosen && (
        <Confirm
          title="Run this record again?"
          verb="Replay"
          onConfirm={async () => (await act<Done>('replay', { id: chosen.id })).done}
          onClose={close}
        >
          <p>
            <b class="uri">{chosen.uri ?? chosen.id}</b> runs on the model that serves now. If it succeeds, its result replaces
            the failure, and the dead letter is removed. If it fails, everything stays.
          </p>
        </Confirm>
      )}
    </>
  );
}
