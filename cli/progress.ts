/**
 * In: how many are done, of how many. Out: one line on the terminal that is redrawn, gone at the end.
 * Trap: a log file must not fill with redrawn lines: without a terminal nothing is drawn at all.
 */

export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface Progress {
  update(done: number): void;
  end(): void;
}

const REDRAW_MS = 100;
const MAX_BAR = 40;
/** Some terminals say 0. */
const DEFAULT_COLUMNS = 80;

/** @param now a clock in ms */
export function showProgress(terminal: Terminal, total: number, now: () => number): Progress {
  if (!terminal.isTTY) return { update: () => undefined, end: () => undefined };
  const start = now();
  let drawnAt = Number.NEGATIVE_INFINITY;
  return {
    update(done) {
      if (now() - drawnAt < REDRAW_MS && done !== total) return;
      drawnAt = now();
      terminal.write(
        `\r\u001b[K${progressLine(done, total, drawnAt - start, terminal.columns || DEFAULT_COLUMNS)}`,
      );
    },
    end: () => void terminal.write('\r\u001b[K'),
  };
}

export function progressLine(done: number, total: number, elapsedMs: number, columns: number): string {
  const rate = elapsedMs > 0 ? `${Math.round((done * 1000) / elapsedMs).toLocaleString('en')}/s` : '';
  const left = done > 0 ? Math.ceil(((total - done) * elapsedMs) / done / 1000) : undefined;
  const numbers = `${done.toLocaleString('en')} of ${total.toLocaleString('en')}  ${rate}`;
  const text = left === undefined ? numbers : `${numbers}  ${left} s left`;
  const width = Math.min(MAX_BAR, columns - text.length - 4);
  if (width < 5) return text.slice(0, columns - 1);
  const filled = total === 0 ? width : Math.round((done / total) * width);
  return `[${'#'.repeat(filled)}${'-'.repeat(width - filled)}] ${text}`;
}
