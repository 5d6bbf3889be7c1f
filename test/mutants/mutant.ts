/** A mutant is one small bug in one source file: a piece of the text is replaced. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Mutant {
  /** From the root of the repository. */
  readonly file: string;
  /** The piece, in UTF-16 units. */
  readonly start: number;
  readonly end: number;
  readonly bug: string;
  /** For a bug by hand: the guarantee that no longer holds, as a sentence. */
  readonly guarantee?: string | undefined;
  /** Why no test catches it and none has to. */
  readonly judgement?: string | undefined;
  /** Test files that see it, where `npm test` cannot. Default: those that reach it. */
  readonly tests?: readonly string[] | undefined;
}

type Piece = Pick<Mutant, 'start' | 'end' | 'bug'>;

export const withBug = (text: string, { start, end, bug }: Piece): string =>
  text.slice(0, start) + bug + text.slice(end);

/** The whole lines that a bug changes, before and after, without indentation. */
export function linesOf(text: string, { start, end, bug }: Piece): { line: string; bug: string } {
  const from = text.lastIndexOf('\n', start - 1) + 1;
  const next = text.indexOf('\n', end);
  const to = next < 0 ? text.length : next;
  return {
    line: text.slice(from, to).trim(),
    bug: (text.slice(from, start) + bug + text.slice(end, to)).trim(),
  };
}

/** One line of list.jsonl, which holds what chance does not find. */
export interface ByHand {
  readonly file: string;
  readonly guarantee: string;
  /** Occurs exactly once, so that a mutant never outlives the code that it breaks. */
  readonly find: string;
  readonly replace: string;
  readonly tests?: readonly string[];
  readonly survives?: string;
}

/** @throws when a line's text is not in its file, or is there twice, or when it changes nothing */
export function readByHand(root: string, path: string): Mutant[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) =>
    mutantByHand(JSON.parse(line), (file) => readFileSync(join(root, file), 'utf8')),
  );
}

export function mutantByHand(
  { file, guarantee, find, replace, tests, survives }: ByHand,
  read: (file: string) => string,
): Mutant {
  const pieces = read(file).split(find);
  if (pieces.length !== 2) {
    throw new Error(
      `${file}: the text to replace occurs ${pieces.length - 1} times, expected once (${guarantee}):\n${find}`,
    );
  }
  if (find === replace) throw new Error(`${file}: the mutant changes nothing (${guarantee})`);
  const start = (pieces[0] as string).length;
  return { file, start, end: start + find.length, bug: replace, guarantee, tests, judgement: survives };
}
