/** A field of the form, made from what the model says of an input. */
import type { PortFacts } from '../api.ts';
import { sizeText } from '../ui.tsx';
import { Columns } from './columns.tsx';
import { Picture } from './picture.tsx';
import { exampleOf, type Given } from './request.ts';

/** More columns than this are given as JSON. */
const MOST_COLUMNS = 64;

interface FieldOptions {
  readonly input: PortFacts;
  readonly given: Given | undefined;
  readonly onGive: (given: Given, runsNow?: boolean) => void;
}

export function InputField({ input, given, onGive }: FieldOptions) {
  const { takes, row, names, optional } = input;
  const isPicture = takes === 'image' && !given?.isNumbers;
  const label = (
    <>
      <code class="name">{input.name}</code>{' '}
      <span class="quiet">{optional ? 'may stay empty' : isPicture ? 'a picture' : hintOf(input)}</span>
    </>
  );
  const text = given?.text ?? '';
  const hasColumns = takes === 'numbers' && row.length === 1 && (names?.length ?? Infinity) <= MOST_COLUMNS;
  if (!isPicture && !hasColumns)
    return <TextField label={label} input={input} given={given} onGive={onGive} />;
  return (
    <fieldset class="field">
      <legend>{label}</legend>
      {isPicture ? (
        <>
          <Picture given={given} onPicture={onGive} />
          <button
            type="button"
            class="link"
            onClick={() => onGive({ text: exampleOf(input) ?? '', isNumbers: true })}
          >
            Give numbers instead
          </button>
        </>
      ) : (
        <Columns names={names ?? []} text={text} onText={(next) => onGive({ text: next })} />
      )}
    </fieldset>
  );
}

function TextField({ input, given, onGive, label }: FieldOptions & { label: preact.ComponentChildren }) {
  const { takes, row, dtype } = input;
  const { text = '', isNumbers = false } = given ?? {};
  const isShort = takes === 'numbers' && row.every((size) => size === 1) && dtype !== 'bool';
  const set = (next: string) => onGive({ text: next, ...(isNumbers && { isNumbers }) });
  return (
    <div class="field">
      <label class="field">
        <span>{label}</span>
        {isShort ? (
          <input
            type="text"
            inputMode={row.length === 0 ? 'decimal' : 'text'}
            value={text}
            onInput={(event) => set(event.currentTarget.value)}
          />
        ) : (
          <textarea
            rows={takes === 'text' ? 3 : Math.min(8, 2 + row.length * 2)}
            spellcheck={takes === 'text'}
            value={text}
            placeholder={
              takes === 'text' ? 'A text' : `${hintOf(input)}, with commas, blanks or tabs between them`
            }
            onInput={(event) => set(event.currentTarget.value)}
          />
        )}
      </label>
      {isNumbers && (
        <button type="button" class="link" onClick={() => onGive({ text: '' })}>
          Give a picture instead
        </button>
      )}
    </div>
  );
}

/** `8 × 8 whole numbers`. */
function hintOf({ dtype, row, takes }: PortFacts): string {
  if (takes === 'text') return 'text';
  const sizes = row.map(sizeText).join(' × ');
  if (dtype === 'bool') return `${sizes} true or false`.trim();
  const word = dtype.includes('int') ? 'whole number' : 'number';
  return row.every((size) => size === 1) ? `a ${word}` : `${sizes} ${word}s`;
}
