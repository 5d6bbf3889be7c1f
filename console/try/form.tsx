/** Asks a model: a field for each of its inputs, or the JSON of a whole request. */
import { useRef, useState } from 'preact/hooks';
import type { Caller, Example, PortFacts } from '../api.ts';
import { type Answered, ask as askService, errorText, isUnavailable, post } from '../client.ts';
import { Card, Choice, CopyButton, Problem } from '../ui.tsx';
import { type Shown, shownAnswer } from './answer.ts';
import { type Language, predictLines } from './code.ts';
import { drawnPicture } from './drawing.tsx';
import { exampleValues, heldValues } from './example.ts';
import { InputField } from './field.tsx';
import { linkedValues, linkOf } from './link.ts';
import { bodyOf, exampleOf, type Field, fieldsOf, type Given, type Values } from './request.ts';
import { AnswerView, CodeLines } from './shown.tsx';

interface TryOptions {
  readonly inputs: readonly PortFacts[];
  readonly outputs: readonly PortFacts[];
  readonly caller: Caller;
  /** Values from a link; '' for none. */
  readonly filled: string;
}

const WAYS = ['Form', 'JSON'] as const;
interface Result {
  readonly shown: readonly Shown[];
  readonly answered: Answered;
}

/** Sends requests to POST /predict, and keeps the last answer. */
function useAnswer(outputs: readonly PortFacts[]) {
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<Result>();
  const [error, setError] = useState<string>();
  const asked = useRef(0);
  const ask = async (body: () => string | Promise<string>) => {
    const turn = ++asked.current;
    // A later request counts, whichever is answered first.
    const isLast = () => turn === asked.current;
    setBusy(true);
    setError(undefined);
    try {
      const answered = await post('predict', await body());
      const shown = shownAnswer(answered.text, outputs);
      if (isLast()) setResult({ answered, shown });
    } catch (failure) {
      if (isLast()) {
        setResult(undefined);
        setError(errorText(failure));
      }
    }
    if (isLast()) setBusy(false);
  };
  /** Drops the answer on the page, and one that is under way: the input has changed. */
  const forget = () => {
    asked.current++;
    setBusy(false);
    setResult(undefined);
    setError(undefined);
  };
  return { ask, forget, busy, result, error };
}

function firstValues(inputs: readonly PortFacts[]): Values {
  return Object.fromEntries(
    inputs.map((input): [string, Given] => {
      const text = input.takes === 'numbers' ? (exampleOf(input) ?? '') : '';
      return [input.name, { text }];
    }),
  );
}

/** @throws Error when none is known */
async function filledExample(inputs: readonly PortFacts[]) {
  const asked = await askService<Example>('example');
  // A picture needs no knowledge of the model.
  if (isUnavailable(asked) && inputs.some(({ takes }) => takes !== 'image'))
    throw new Error(asked.unavailable);
  const example = isUnavailable(asked) ? { body: textOf(undefined), isGolden: false } : asked;
  return { body: example.body, found: exampleValues(example, inputs, drawnPicture) };
}

/** The input: the form or the JSON of a request, whichever was changed last. */
function useFilled(inputs: readonly PortFacts[], linked: string, onChange: () => void) {
  const [way, setWay] = useState<(typeof WAYS)[number]>('Form');
  const [values, setValues] = useState<Values>(() => ({
    ...firstValues(inputs),
    ...linkedValues(linked, inputs),
  }));
  /** Undefined: that of the form. */
  const [json, setJson] = useState<string>();
  const write = (next: string) => {
    setJson(next);
    onChange();
  };
  const give = (next: Values) => {
    setValues(next);
    setJson(undefined);
    onChange();
  };
  const choose = (next: typeof way) => {
    const found = next === 'Form' && json !== undefined ? heldValues(json, inputs) : undefined;
    if (found) give(found);
    setWay(next);
    onChange();
  };
  /** @param next an example; as JSON where the form cannot hold it */
  const fill = (next: Values | string) => {
    if (typeof next === 'string') setJson(next);
    else {
      setValues(next);
      setJson(undefined);
    }
    setWay(typeof next === 'string' ? 'JSON' : 'Form');
  };
  const fields = tried(() => fieldsOf(inputs, values));
  const body = way === 'JSON' ? (json ?? textOf(fields)) : undefined;
  const isLeft = way === 'Form' && json !== undefined;
  return { way, values, fields, body, isLeft, write, give, choose, fill };
}

export function TryModel({ inputs, outputs, caller, filled: linked }: TryOptions) {
  const { ask, forget, busy, result, error } = useAnswer(outputs);
  const filled = useFilled(inputs, linked, forget);
  const { way, values, fields, body, isLeft } = filled;

  const run = (given?: readonly Field[]) => ask(() => body ?? bodyOf(given ?? fieldsOf(inputs, values)));
  const give = (name: string, given: Given, runsNow = false) => {
    const next = { ...values, [name]: given };
    filled.give(next);
    const whole = runsNow && inputs.length === 1 ? tried(() => fieldsOf(inputs, next)) : undefined;
    if (whole) void run(whole);
  };
  const fill = () =>
    ask(async () => {
      const { found, body: raw } = await filledExample(inputs);
      filled.fill(found ?? raw);
      return found ? bodyOf(fieldsOf(inputs, found)) : raw;
    });
  return (
    <Card
      title="Try it"
      class="try"
      aside={<Choice label="How to ask" options={WAYS} value={way} onChange={filled.choose} />}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {way === 'Form' ? (
          <Fields inputs={inputs} values={values} onGive={give} />
        ) : (
          <BodyField body={body ?? ''} onBody={filled.write} />
        )}
        <Buttons
          busy={busy}
          onExample={() => void fill()}
          link={way === 'Form' ? linkOf(values) : undefined}
        />
      </form>
      {isLeft && (
        <p class="missing" role="status">
          The form cannot hold this JSON. It is kept under JSON until the form is changed.
        </p>
      )}
      {error !== undefined && <Problem text={error} />}
      <div aria-live="polite">{result && <AnswerView {...result} />}</div>
      {fields && way === 'Form' && (
        <CodeLines
          lines={(language: Language, url) => predictLines(language, { caller, url }, fields)}
          caller={caller}
        />
      )}
    </Card>
  );
}

interface FieldsOptions {
  readonly inputs: readonly PortFacts[];
  readonly values: Values;
  readonly onGive: (name: string, given: Given, runsNow?: boolean) => void;
}

function Fields({ inputs, values, onGive }: FieldsOptions) {
  return (
    <>
      {inputs.map((input) => (
        <InputField
          key={input.name}
          input={input}
          given={Object.hasOwn(values, input.name) ? values[input.name] : undefined}
          onGive={(given, runsNow) => onGive(input.name, given, runsNow)}
        />
      ))}
    </>
  );
}

interface ButtonsOptions {
  readonly busy: boolean;
  readonly onExample: () => void;
  /** Undefined where no link can hold what is filled in. */
  readonly link: string | undefined;
}

function Buttons({ busy, onExample, link }: ButtonsOptions) {
  return (
    <div class="actions">
      <button type="submit" class="main" disabled={busy}>
        {busy ? 'Asking…' : 'Predict'}
      </button>
      <button type="button" disabled={busy} onClick={onExample}>
        Try an example
      </button>
      {link !== undefined && <CopyButton text={link} what="a link to this form" label="Copy link" />}
    </div>
  );
}

function BodyField({ body, onBody }: { body: string; onBody: (body: string) => void }) {
  return (
    <label class="field">
      <span>The body of POST /predict</span>
      <textarea
        rows={10}
        spellcheck={false}
        value={body}
        onInput={(event) => onBody(event.currentTarget.value)}
      />
    </label>
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
