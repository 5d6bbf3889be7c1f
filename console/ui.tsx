/** Parts that the views share: polling, and the small elements of a page. */
import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Unavailable } from './api.ts';
import { type ApiError, ask, errorText, isUnavailable } from './client.ts';

/** As the service completes its steps. */
const REFRESH_MS = 10_000;

export interface Asked<T> {
  /** The last answer, also when the one after it failed. */
  readonly value?: T | Unavailable;
  /** When the last answer came, in ms since 1970. */
  readonly at?: number;
  readonly error?: ApiError;
  readonly again: () => Promise<void>;
}

/** Asks now, and every ten seconds while the page is seen, unless an answer is still awaited. */
export function useAsked<T>(part: string): Asked<T> {
  const [state, setState] = useState<Omit<Asked<T>, 'again'>>({});
  const latest = useRef(0);
  const awaited = useRef(0);
  const again = useCallback(async () => {
    const turn = ++latest.current;
    awaited.current++;
    try {
      const value = await ask<T>(part);
      if (turn === latest.current) setState({ value, at: Date.now() });
    } catch (error) {
      if (turn === latest.current) setState((last) => ({ ...last, error: error as ApiError }));
    } finally {
      awaited.current--;
    }
  }, [part]);
  useEffect(() => {
    void again();
    const ifSeen = () => {
      if (!document.hidden && awaited.current === 0) void again();
    };
    const timer = setInterval(ifSeen, REFRESH_MS);
    document.addEventListener('visibilitychange', ifSeen);
    return () => {
      latest.current++;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', ifSeen);
    };
  }, [again]);
  return { ...state, again };
}

/** Shows what was asked for, or why it is not there. */
export function Loaded<T>({
  asked,
  children,
}: {
  asked: Asked<T>;
  children: (value: T) => ComponentChildren;
}) {
  const { value, at = 0, error } = asked;
  const last = value === undefined ? '' : ` Below is its last answer, of ${clockText(at / 1000)}.`;
  return (
    <>
      {error && <Problem text={error.message + last} />}
      {value === undefined ? !error && <p class="quiet">Loading…</p> : null}
      {value !== undefined && (isUnavailable(value) ? <Missing why={value.unavailable} /> : children(value))}
    </>
  );
}

/** A sentence of the service, in which backticks stand around what is typed. */
export function Words({ text }: { text: string }) {
  const parts = text.split(/`([^`]+)`/);
  return <>{parts.map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>;
}

/** The verdict on batching in plain words. */
export function batchingText(why: string): string {
  return why
    .replace(
      'records share runs: the graph shows that none',
      'Safe: records run together, and it is proved on the model that none',
    )
    .replace(/^records share runs/, 'Records run together')
    .replace(/^records run one by one/, 'Records run one at a time');
}

export function Missing({ why }: { why: string }) {
  return (
    <p class="missing">
      <b>Not available.</b> <Words text={why} />
    </p>
  );
}

export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <p>
        <b>{title}</b>
      </p>
      <p>{children}</p>
    </div>
  );
}

/** Explains a word of the page on demand. */
export function Help({ about, children }: { about: string; children: ComponentChildren }) {
  return (
    <details class="help">
      <summary>{about}</summary>
      {children}
    </details>
  );
}

export function Problem({ text }: { text: string }) {
  return (
    <p class="problem" role="alert">
      <Words text={text} />
    </p>
  );
}

interface CardOptions {
  readonly title: string;
  readonly aside?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, aside, children, class: name = '' }: CardOptions) {
  return (
    <section class={`card ${name}`}>
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

interface CopyOptions {
  readonly text: string;
  readonly what: string;
  readonly label?: string;
}

export function CopyButton({ text, what, label = 'Copy' }: CopyOptions) {
  const [said, setSaid] = useState(label);
  useEffect(() => {
    const timer = setTimeout(() => setSaid(label), 2_000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () =>
    navigator.clipboard
      ? navigator.clipboard.writeText(text).then(
          () => setSaid('Copied'),
          () => setSaid('Not allowed'),
        )
      : setSaid('Select it');
  return (
    <button type="button" class="small" onClick={() => void copy()} aria-label={`${said}: ${what}`}>
      {said}
    </button>
  );
}

interface ChoiceOptions<T extends string> {
  readonly label: string;
  readonly options: readonly T[];
  readonly value: T;
  readonly onChange: (value: T) => void;
}

/** Buttons of which one is pressed. */
export function Choice<T extends string>({ label, options, value, onChange }: ChoiceOptions<T>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
          {option}
        </button>
      ))}
    </div>
  );
}

interface ConfirmOptions {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly verb: string;
  /** The label of the button that changes nothing. Default: Cancel. */
  readonly keep?: string;
  /** Why there is nothing to confirm any more. */
  readonly over?: string | undefined;
  /** @returns what was done */
  readonly onConfirm: () => Promise<string>;
  readonly onClose: () => void;
}

/** Asks before something is changed, and says what came of it. */
export function Confirm({
  title,
  children,
  verb,
  keep = 'Cancel',
  over,
  onConfirm,
  onClose,
}: ConfirmOptions) {
  const dialog = useRef<HTMLDialogElement>(null);
  const main = useRef<HTMLButtonElement>(null);
  const close = useRef<HTMLButtonElement>(null);
  const [state, setState] = useState<{ busy?: true; done?: string; error?: string }>({});
  const { busy, done, error } = state;
  const isAsking = done === undefined && (busy || over === undefined);
  useEffect(() => dialog.current?.showModal(), []);
  // A button that is disabled or gone loses the focus to the page.
  useEffect(() => {
    if (!isAsking) close.current?.focus();
    else if (error !== undefined) main.current?.focus();
  }, [state, isAsking]);
  const confirm = async () => {
    setState({ busy: true });
    try {
      setState({ done: await onConfirm() });
    } catch (failure) {
      setState({ error: errorText(failure) });
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onClose={onClose}>
      <h2 id="confirm-title">{done === undefined ? title : 'Done'}</h2>
      {done === undefined && <div>{children}</div>}
      {error !== undefined && <Problem text={error} />}
      {done === undefined && !isAsking && <p class="missing">{over}</p>}
      {done !== undefined && (
        <p class="good" role="status">
          <Words text={done} />
        </p>
      )}
      <footer>
        <button type="button" ref={close} onClick={() => dialog.current?.close()}>
          {isAsking ? keep : 'Close'}
        </button>
        {isAsking && (
          <button type="button" ref={main} class="main" disabled={busy} onClick={() => void confirm()}>
            {busy ? 'One moment…' : verb}
          </button>
        )}
      </footer>
    </dialog>
  );
}

/** `[N, 3, ?]`. @param shape as in PortFacts */
export function shapeText(shape: readonly (number | string)[]): string {
  return `[${shape.map(sizeText).join(', ')}]`;
}

export function sizeText(size: number | string): string {
  return size === '' || size === -1 ? '?' : String(size);
}

export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** `2026-11-23 17:04:05` in the time zone of the browser, which sorts as it reads and is the same in every language. */
export function timeText(time: string | number): string {
  const date = new Date(time);
  const parts = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  return `${parts.map(twoDigits).join('-')} ${clockText(date.getTime() / 1000)}`;
}

/** `17:04:05`. @param seconds since 1970 */
export function clockText(seconds: number): string {
  const date = new Date(seconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(':');
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}
