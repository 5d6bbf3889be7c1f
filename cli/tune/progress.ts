/**
 * In: how much of the time has passed, and what is measured. Out: one line on the terminal, gone at the end.
 * Trap: drawing takes time too, which must not fall into a measurement: it happens between two turns, seldom.
 */
import type { Terminal } from '../progress.ts';

interface TurnDisplay {
  readonly show: (share: number, what: string) => void;
  readonly end: () => void;
}

const REDRAW_MS = 200;
const BAR_WIDTH = 30;
const DEFAULT_COLUMNS = 80;

export function showTurns(terminal: Terminal, isQuiet: boolean, now: () => number = Date.now): TurnDisplay {
  if (!terminal.isTTY || isQuiet) return { show: () => undefined, end: () => undefined };
  let drawnAt = Number.NEGATIVE_INFINITY;
  return {
    show(share, what) {
      if (now() - drawnAt < REDRAW_MS) return;
      drawnAt = now();
      terminal.write(`\r\u001b[K${turnLine(share, what, terminal.columns || DEFAULT_COLUMNS)}`);
    },
    end: () => void terminal.write('\r\u001b[K'),
  };
}

export function turnLine(share: number, what: string, columns: number): string {
  const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_WIDTH);
  const percent = `${Math.round(share * 100)} %`.padStart(5);
  return `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${percent}  ${what}`.slice(0, columns - 1);
}
