/** Asks a model: a field for each of its inputs, or the JSON of a whole request. */
import { useState } from 'preact/hooks';
import type { Caller, PortFacts } from '../api.ts';
import { type Answered, post } from '../client.ts';
import { Card, Choice, Problem } from '../ui.tsx';
import { type Shown, shownAnswer } from './answer.ts';
import { type Language, predictLines } from './code.ts';
import { Columns } from './columns.tsx';
import { Picture } from './picture.tsx';
import { bodyOf, exampleOf, type Field, fieldsOf, type Given, type Values } from './request.ts';
import { AnswerView, CodeLines } from './shown.tsx';

interface TryOptions {
  readonly inputs: readonly PortFacts[];
  readonly outputs: readonly PortFacts[];
  readonly caller: Caller;
}

const WAYS = ['Form', 'JSON'] as const;
/** More columns than this are given as JSON. */
const MOST_COLUMNS = 64;

interface Result {
  readonly shown: readonly Shown[];
  readonly answered: Answered;
}

function firstValues(inputs: readonly PortFacts[]): Values {
  return Object.fromEntries(
    inputs.map((input): [string, Given] => {
      const text = input.takes === 'numbers' ? (exampleOf(input) ?? '') : '';
      return [input.name, { text }];
    }),
  );
}

export function TryModel({ inputs, outputs, caller }: TryOptions) {
  const [way, setWay] = useState<(typeof WAYS)[number]>('Form');
  const [values, setValues] = useState<Values>(() => firstValues(inputs));
  const [json, setJson] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<Result>();
  const [error, setError] = useState<string>();
  const filled = tried(() => fieldsOf(inputs, values));
  const body = way === 'JSON' ? (json ?? textOf(filled)) : undefined;

  const run = async (fields?: readonly Field[]) => {
    setBusy(true);
    setError(undefined);
    try {
      const answered = await post('predict', body ?? bodyOf(fields ?? fieldsOf(inputs, values)));
      setResult({ answered, shown: shownAnswer(answered.text, outputs) });
    } catch (failure) {
      setResult(undefined);
      setError((failure as Error).message);
    }
    setBusy(false);
  };
  const give = (name: string, given: Given, runsNow = false) => {
    const next = { ...values, [name]: given };
    setValues(next);
    const fields = runsNow && inputs.length === 1 ? tried(() => fieldsOf(inputs, next)) : undefined;
    if (fields) void run(fields);
  };
  return (
    <Card
      title="Try it"
      class="try"
      aside={<Choice label="How to ask" options={WAYS} value={way} onChange={setWay} />}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {way === 'Form' ? (
          inputs.map((input) => (
            <InputField
              key={input.name}
              input={input}
              given={Object.hasOwn(values, input.name) ? values[input.name] : undefined}
              onGive={(given, runsNow) => give(input.name, given, runsNow)}
            />
          ))
        ) : (
          <label class="field">
            <span>The body of POST /predict</span>
            <textarea
              rows={10}
              spellcheck={false}
              value={body}
              onInput={(event) => setJson(event.currentTarget.value)}
            />
          </label>
        )}
        <button type="submit" class="main" disabled={busy}>
          {busy ? 'Asking…' : 'Predict'}
        </button>
      </form>
      {error !== undefined && <Problem text={error} />}
      <div aria-live="polite">{result && <AnswerView {...result} />}</div>
      {filled && way === 'Form' && (
        <CodeLines lines={(language: Language, url) => predictLines(language, { caller, url }, filled)} caller={caller} />
      )}
    </Card>
  );
}

function textOf(fields: readonly Field[] | undefined): string {
  return fields ? bodyOf(fields) : '{"instances": [{}]}';
}

function tried<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

interface FieldOptions {
  readonly input: PortFacts;
  readonly given: Given | undefined;
  readonly onGive: (given: Given, runsNow?: boolean) => void;
}

function InputField({ input, given, onGive }: FieldOptions) {
  const { name, takes, dtype, row, names, optional } = input;
  const text = given?.text ?? '';
  const label = (
    <>
      <code class="name">{name}</code> <span class="quiet">{optional ? 'may stay empty' : hintOf(input)}</span>
    </>
  );
  if (takes === 'image' && !given?.isNumbers) {
    return (
      <fieldset class="field">
        <legend>{label}</legend>
        <Picture isGrey={input.image?.isGrey ?? false} onPicture={(picture, runsNow) => onGive(picture, runsNow)} />
        <button type="button" class="link" onClick={() => onGive({ text: exampleOf(input) ?? '', isNumbers: true })}>
          Give numbers instead
        </button>
      </fieldset>
    );
  }
  if (takes === 'numbers' && names && names.length <= MOST_COLUMNS && row.length === 1) {
    return (
      <fieldset class="field">
        <legend>{label}</legend>
        <Columns names={names} text={text} onText={(next) => onGive({ text: next })} />
      </fieldset>
    );
  }
  const isShort = takes === 'numbers' && row.length === 0 && dtype !== 'bool';
  const set = (next: string) => onGive({ text: next, ...(given?.isNumbers && { isNumbers: true }) });
  return (
    <label class="field">
      <span>{label}</span>
      {isShort ? (
        <input type="text" inputMode="decimal" value={text} onInput={(event) => set(event.currentTarget.value)} />
      ) : (
        <textarea
          rows={takes === 'text' ? 3 : Math.min(8, 2 + row.length * 2)}
          spellcheck={takes === 'text'}
          value={text}
          placeholder={takes === 'text' ? 'A text' : `JSON of ${hintOf(input)}`}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
      {given?.isNumbers && (
        <button type="button" class="link" onClick={() => onGive({ text: '' })}>
          Give a picture instead
        </button>
      )}
    </label>
  );
}

function hintOf({ dtype, row, takes }: PortFacts): string {
  if (takes === 'text') return 'text';
  return row.length === 0 ? dtype : `${dtype} [${row.map((size) => (size === '' ? '?' : size)).join(', ')}]`;
}
