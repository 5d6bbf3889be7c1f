/** Asks a worker: JSON in, JSON out. */
import { useState } from 'preact/hooks';
import type { Caller } from '../api.ts';
import { type Answered, errorText, post } from '../client.ts';
import { Card, Problem } from '../ui.tsx';
import { indented, type Shown, shownText } from './answer.ts';
import { encodeLines } from './code.ts';
import { AnswerView, CodeLines } from './shown.tsx';

export function TryWorker({ caller }: { caller: Caller }) {
  const [json, setJson] = useState('{"text": "hello"}');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const [result, setResult] = useState<{ shown: readonly Shown[]; answered: Answered }>();
  const problem = problemOf(json);
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const answered = await post('encode_json', json);
      setResult({ answered, shown: [shownText('data', indented(dataOf(answered.text)))] });
    } catch (failure) {
      setResult(undefined);
      setError(errorText(failure));
    }
    setBusy(false);
  };
  return (
    <Card title="Try it" class="try">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <label class="field">
          <span>One item, as JSON</span>
          <textarea
            rows={8}
            spellcheck={false}
            value={json}
            onInput={(event) => setJson(event.currentTarget.value)}
          />
        </label>
        {problem !== undefined && <p class="quiet">{problem}</p>}
        <button type="submit" class="main" disabled={busy || problem !== undefined}>
          {busy ? 'Asking…' : 'Send'}
        </button>
      </form>
      {error !== undefined && <Problem text={error} />}
      <div aria-live="polite">{result && <AnswerView {...result} />}</div>
      {problem === undefined && (
        <CodeLines lines={(language, url) => encodeLines(language, { caller, url }, json)} caller={caller} />
      )}
    </Card>
  );
}

function problemOf(json: string): string | undefined {
  try {
    JSON.parse(json);
    return undefined;
  } catch {
    return 'This is not JSON yet, such as {"text": "hello"}: texts and names stand in double quotes.';
  }
}

/** The content of the envelope, as the service wrote it. */
function dataOf(text: string): string {
  const [, data] = /"data"\s*:\s*(.*)\}\s*$/s.exec(text) ?? [];
  return data ?? text;
}
