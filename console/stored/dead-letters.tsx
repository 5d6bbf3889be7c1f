/** The dead letters of a job, each with its reason, and a button that runs it again. */
import { useState } from 'preact/hooks';
import type { DeadLetterPage, Done } from '../api.ts';
import { act } from '../client.ts';
import { type Asked, bytesText, Card, Confirm, Loaded, timeText, useAsked, Words } from '../ui.tsx';
import { EditLetter } from './edit-letter.tsx';

type Letter = DeadLetterPage['letters'][number];

export function DeadLettersCard({ onReplayed }: { onReplayed: () => Promise<void> }) {
  const [after, setAfter] = useState<string>();
  const asked = useAsked<DeadLetterPage>(`dead-letters${after ? `?after=${encodeURIComponent(after)}` : ''}`);
  return (
    <Card
      title="Dead letters"
      class="waiting"
      aside={<span class="quiet">records that failed too often, newest first</span>}
    >
      <Loaded asked={asked}>
        {(page) => (
          <Letters page={page} asked={asked} onReplayed={onReplayed} onNext={setAfter} isFirst={!after} />
        )}
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
  const [edited, setEdited] = useState<Letter>();
  const { letters, next, noReplay } = page;
  const close = () => {
    setChosen(undefined);
    setEdited(undefined);
    void asked.again();
    void onReplayed();
  };
  return (
    <>
      {letters.length === 0 && (
        <p class="quiet">
          There are none. A record that fails again and again is put here, so that it can be run again once
          its cause is removed.
        </p>
      )}
      {noReplay !== undefined && (
        <p class="quiet">
          <Words text={noReplay} />
        </p>
      )}
      <ul class="rows" tabIndex={letters.length > 0 ? 0 : undefined} aria-label="Dead letters">
        {letters.map((letter) => (
          <LetterRow
            key={letter.id}
            letter={letter}
            onReplay={noReplay === undefined ? setChosen : undefined}
            onEdit={setEdited}
          />
        ))}
      </ul>
      <Pages next={next} isFirst={isFirst} onNext={onNext} />
      {edited && <EditLetter id={edited.id} uri={edited.uri} onClose={close} />}
      {chosen && (
        <Confirm
          title="Run this record again?"
          verb="Replay"
          onConfirm={async () => (await act<Done>('replay', { id: chosen.id })).done}
          onClose={close}
        >
          <p>
            <b class="uri">{chosen.uri ?? chosen.id}</b> runs on the model that serves now. If it succeeds,
            its result replaces the failure, and the dead letter is removed. If it fails, everything stays.
          </p>
        </Confirm>
      )}
    </>
  );
}

function Pages({
  next,
  isFirst,
  onNext,
}: Pick<LettersOptions, 'isFirst' | 'onNext'> & Pick<DeadLetterPage, 'next'>) {
  if (isFirst && next === undefined) return null;
  return (
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
  );
}

function attemptsText(attempts: number | undefined): string {
  if (attempts === undefined) return 'unknown number of attempts';
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`;
}

interface RowOptions {
  readonly letter: Letter;
  readonly onReplay: ((letter: Letter) => void) | undefined;
  readonly onEdit: (letter: Letter) => void;
}

function LetterRow({ letter, onReplay, onEdit }: RowOptions) {
  return (
    <li class="letter">
      <span class="uri">{letter.uri ?? '(no uri)'}</span>
      <time class="quiet" dateTime={letter.archivedAt}>
        {timeText(letter.archivedAt)}
      </time>
      <span class="quiet result">
        {letter.reason} · {attemptsText(letter.attempts)} · {bytesText(letter.bytes)}
      </span>
      <span class="pair">
        {onReplay && (
          <button
            type="button"
            class="small"
            onClick={() => onReplay(letter)}
            aria-label={`Replay ${letter.uri ?? letter.id}`}
          >
            Replay
          </button>
        )}
        <button
          type="button"
          class="small"
          onClick={() => onEdit(letter)}
          aria-label={`Edit ${letter.uri ?? letter.id}`}
        >
          Edit
        </button>
      </span>
    </li>
  );
}
