/** The answer, and the lines that get it. */
import { useState } from 'preact/hooks';
import type { Caller } from '../api.ts';
import type { Answered } from '../client.ts';
import { Choice, CopyButton } from '../ui.tsx';
import { barShare, numberText, type Shown } from './answer.ts';
import { LANGUAGES, type Language } from './code.ts';

export function AnswerView({ shown, answered }: { shown: readonly Shown[]; answered: Answered }) {
  const { tookMs, version } = answered;
  return (
    <div class="answer">
      <p class="quiet">
        Answered in <b>{tookMs < 10 ? tookMs.toFixed(1) : Math.round(tookMs)} ms</b>
        {version !== undefined && (
          <>
            {' '}
            by version <code>{version}</code>
          </>
        )}
      </p>
      {shown.map((one) => (
        <OutputView key={one.name} shown={one} />
      ))}
    </div>
  );
}

function OutputView({ shown }: { shown: Shown }) {
  return (
    <div class="output">
      {shown.shape !== '' && (
        <h3>
          <code class="name">{shown.name}</code>{' '}
          <code class="type">{shown.shape === '[]' ? 'one value' : shown.shape}</code>
        </h3>
      )}
      <Values shown={shown} />
    </div>
  );
}

function Values({ shown }: { shown: Shown }) {
  if (shown.kind === 'text') return <pre>{shown.text}</pre>;
  if (shown.kind === 'bars') {
    return (
      <>
        <ol class="bars" aria-label={`Largest values of ${shown.name}`}>
          {shown.bars.map((bar, i) => (
            <li key={i}>
              <span class="label" title={bar.label}>
                {bar.label}
              </span>
              <span class="track" aria-hidden="true">
                <span class="fill" style={{ width: `${barShare(bar.value, shown.bars) * 100}%` }} />
              </span>
              <span class="value">{numberText(bar.value)}</span>
            </li>
          ))}
        </ol>
        {shown.more > 0 && <p class="quiet">and {shown.more} smaller ones</p>}
      </>
    );
  }
  const [[single] = []] = shown.rows;
  if (shown.shape === '[]' && single !== undefined) return <pre>{single}</pre>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Values of ${shown.name}`}>
        <table>
          <thead>
            <tr>
              {shown.columns.map((name, i) => (
                <th key={i} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.rows.map((row, i) => (
              <tr key={i}>
                {row.map((cell, j) => (
                  <td key={j} class="number">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.more > 0 && <p class="quiet">and {shown.more} values more</p>}
    </>
  );
}

interface CodeOptions {
  readonly lines: (language: Language, url: string) => string;
  readonly caller: Caller;
}

/** Longer lines are of a large request, which is too long to paste into a terminal. */
const MOST_LINES = 4_000;

export function CodeLines({ lines, caller }: CodeOptions) {
  const [language, setLanguage] = useState<Language>('curl');
  const base = new URL('.', location.href).href.replace(/\/$/, '');
  const text = lines(language, caller.url ?? base);
  // A single machine has a page of documentation. Not behind a token, because a link sends none.
  const hasDocs = caller.url === undefined && caller.auth === 'none';
  return (
    <section class="code" aria-label="The same from a program">
      <header>
        <h3>
          From a program{' '}
          {hasDocs && (
            <a class="docs" href="docs">
              API reference
            </a>
          )}
        </h3>
        <Choice label="Language" options={LANGUAGES} value={language} onChange={setLanguage} />
        <CopyButton text={text} what={`the lines for ${language}`} />
      </header>
      <pre tabIndex={0} role="region" aria-label={`Lines for ${language}`}>
        {text.length > MOST_LINES ? `${text.slice(0, MOST_LINES)}…` : text}
      </pre>
    </section>
  );
}
