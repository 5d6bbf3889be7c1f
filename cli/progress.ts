/**
 * Shows a command's progress: a bar on stderr that is redrawn and removed at the end; a line every ten seconds if
 * stderr is not a terminal, to keep logs short; nothing with --json.
 */

export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface Step {
  /** The current activity; the rate is measured separately for each. */
  readonly label?: string;
  readonly done?: number;
  /** Without it only the label is shown. */
  readonly total?: number | undefined;
  /** 's' counts seconds, which have no rate. */
  readonly unit?: 's' | 'MB';
}

export interface Progress {
  readonly update: (step: Step) => void;
  readonly end: () => void;
}

const REDRAW_MS = 100;
const LINE_MS = 10_000;
const MAX_BAR = 40;
/** Some terminals report 0 columns. */
const DEFAULT_COLUMNS = 80;
const ERASE = '\r\u001b[K';

/** @param now a clock in ms */
export function showProgress(
  isQuiet: boolean,
  terminal: Terminal = process.stderr,
  now: () => number = () => performance.now(),
): Progress {
  const isTerminal = terminal.isTTY === true;
  let stage: string | undefined;
  let start = now();
  let shownAt = isTerminal ? Number.NEGATIVE_INFINITY : start;
  let isDrawn = false;
  return {
    update(step) {
      const key = step.unit === 's' ? '' : `${step.label} ${step.unit}`;
      const isNew = stage !== undefined && stage !== key;
      if (isNew) start = now();
      stage = key;
      const isDue = now() - shownAt >= (isTerminal ? REDRAW_MS : LINE_MS);
      const isAtOnce = isTerminal && (isNew || step.done === step.total);
      if (isQuiet || !(isDue || isAtOnce)) return;
      shownAt = now();
      const columns = terminal.columns || DEFAULT_COLUMNS;
      const elapsedMs = shownAt - start;
      if (isTerminal) terminal.write(`${ERASE}${barLine(step, elapsedMs, columns)}`);
      else terminal.write(`${stepText(step, elapsedMs)}\n`);
      isDrawn = isTerminal;
    },
    end() {
      if (isDrawn) terminal.write(ERASE);
      isDrawn = false;
    },
  };
}

function stepText({ label = '', done = 0, total, unit }: Step, elapsedMs: number): string {
  if (total === undefined) return label;
  const percent = total > 0 ? `${Math.floor((done / total) * 100)} %` : '';
  const size = unit === undefined ? '' : ` ${unit}`;
  const rate = elapsedMs > 0 && unit !== 's' ? `${count((done * 1000) / elapsedMs)}${size}/s` : '';
  const left = done > 0 ? `${Math.ceil(((total - done) * elapsedMs) / done / 1000)} s left` : '';
  const parts = [`${count(done)} of ${count(total)}${size}`, percent, rate, left, label];
  return parts.filter((part) => part !== '').join('  ');
}

export function barLine(step: Step, elapsedMs: number, columns: number): string {
  const { done = 0, total } = step;
  const text = stepText(step, elapsedMs);
  const width = Math.min(MAX_BAR, columns - text.length - 4);
  if (width < 5 || total === undefined) return text.slice(0, columns - 1);
  const filled = total === 0 ? width : Math.round(Math.min(1, done / total) * width);
  return `[${'#'.repeat(filled)}${'-'.repeat(width - filled)}] ${text}`;
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}
