/**
 * Finds the known word that an unknown one was probably meant to be. At most a third of the letters may differ, because
 * a far-off suggestion misleads.
 */
import { elementAt } from './present.ts';

/** Longer words are compared up to here, because the work grows with the square of their length. */
const MOST_LETTERS = 100;
/** With more known words than this, only those that differ in case or accents are found. */
const MOST_KNOWN = 256;

export function suggest(word: string, known: readonly string[]): string | undefined {
  const folded = foldName(word);
  const same = known.find((candidate) => foldName(candidate) === folded);
  if (same !== undefined || known.length > MOST_KNOWN) return same;
  const meant = plainWord(word.slice(0, MOST_LETTERS));
  const distances = known.map((candidate) => ({
    candidate,
    distance: editDistance(meant, plainWord(candidate.slice(0, MOST_LETTERS))),
  }));
  const best = distances.sort((a, b) => a.distance - b.distance)[0];
  if (!best) return undefined;
  const { candidate, distance } = best;
  // Every letter of `x` differs from `a`, so neither is a slip of the other.
  const mayDiffer = Math.min(candidate.length - 1, Math.max(1, Math.floor(candidate.length / 3)));
  return distance <= mayDiffer ? candidate : undefined;
}

/** `thread_per_model`, `threadPerModel` and `ThreadPerModel` are the same word. */
export function plainWord(word: string): string {
  return word.toLowerCase().replaceAll(/[_-]/g, '');
}

/** The units and notes of a table's header: `Fare (USD)`, `Temp [°C]`. */
const BRACKETED = /\([^()]*\)|\[[^[\]]*\]|\{[^{}]*\}/g;
/** Blanks, invisible characters, hyphens and underscores. */
const SEPARATORS = /[\s\p{Cf}\p{Pd}_]+/gu;
const FOLDED = /^[a-z\d]+$/;

/** Folds a name: without case, blanks, hyphens, underscores and units in brackets, in which writers differ. */
export function foldName(name: string): string {
  if (FOLDED.test(name)) return name;
  const plain = name.normalize('NFKC').toLowerCase();
  const withoutUnits = plain.replace(BRACKETED, '').replace(SEPARATORS, '');
  return withoutUnits === '' ? plain.replace(SEPARATORS, '') : withoutUnits;
}

/** Counts letters to insert, delete or replace, and swaps of neighbours, the most common slip: `modle`. */
function editDistance(a: string, b: string): number {
  let twoAgo: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = elementAt(row, j - 1, 'row') + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? elementAt(twoAgo, j - 2, 'twoAgo') + 1 : Number.POSITIVE_INFINITY;
      next.push(
        Math.min(elementAt(row, j, 'row') + 1, elementAt(next, j - 1, 'next') + 1, substitution, swap),
      );
    }
    twoAgo = row;
    row = next;
  }
  return elementAt(row, b.length, 'row');
}
