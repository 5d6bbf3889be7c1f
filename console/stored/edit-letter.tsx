/** Asks for another payload of a dead letter, and enqueues it. */
import { useState } from 'preact/hooks';
import type { Done, EditableLetter } from '../api.ts';
import { act } from '../client.ts';
import { Confirm, Loaded, useAsked } from '../ui.tsx';

interface EditOptions {
  readonly id: string;
  readonly uri: string | undefined;
  readonly onClose: () => void;
}

export function EditLetter({ id, uri, onClose }: EditOptions) {
  const asked = useAsked<EditableLetter>(`dead-letter?id=${encodeURIComponent(id)}`);
  const [written, setWritten] = useState<string>();
  const value = asked.value;
  const shown = value !== undefined && 'text' in value ? value.text : '';
  return (
    <Confirm
      title="Enqueue this record with another payload?"
      verb="Enqueue"
      onConfirm={async () => (await act<Done>('edit', { id, payload: written ?? shown })).done}
      onClose={onClose}
    >
      <p>
        It is a new record of the queue under the uri <b class="uri">{uri ?? 'that the payload names'}</b>.
        The dead letter is removed once the queue has it.
      </p>
      <Loaded asked={asked}>
        {({ text }) => (
          <label class="field">
            <span>Payload, as for POST /predictions</span>
            <textarea
              rows={12}
              spellcheck={false}
              value={written ?? text}
              onInput={(event) => setWritten(event.currentTarget.value)}
            />
          </label>
        )}
      </Loaded>
    </Confirm>
  );
}
