/**
 * In: which stage an import is in, and how far. Out: one line on the terminal that is redrawn, gone at the end.
 * Trap: converting holds the thread, so a stage is drawn when it begins; and a log file gets nothing.
 */
import type { Stage } from '../../convert/import.ts';
import { progressLine, type Terminal } from '../progress.ts';

export interface StageDisplay {
  readonly show: (stage: Stage, done?: number, total?: number) => void;
  readonly end: () => void;
}

const TEXTS: Readonly<Record<Stage, string>> = {
  reading: '1 of 4  reading the files',
  converting: '2 of 4  converting',
  writing: '3 of 4  writing',
  checking: '4 of 4  running the model',
};
const MB = 1024 * 1024;
const DEFAULT_COLUMNS = 80;

export function showStages(terminal: Terminal, isQuiet: boolean, now: () => number = Date.now): StageDisplay {
  if (!terminal.isTTY || isQuiet) return { show: () => undefined, end: () => undefined };
  let start = now();
  let shown: Stage | undefined;
  const columns = terminal.columns || DEFAULT_COLUMNS;
  const draw = (text: string) => void terminal.write(`\r\u001b[K${text.slice(0, columns - 1)}`);
  return {
    show(stage, done, total) {
      if (stage !== shown) start = now();
      shown = stage;
      const isLong = done !== undefined && total !== undefined && total > 16 * MB;
      if (!isLong) return draw(TEXTS[stage]);
      const room = columns - TEXTS[stage].length - 7;
      const bar = progressLine(Math.round(done / MB), Math.round(total / MB), now() - start, room);
      draw(`${TEXTS[stage]} MB  ${bar}`);
    },
    end: () => void terminal.write('\r\u001b[K'),
  };
}
