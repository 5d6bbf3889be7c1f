/**
 * Finds the known word that an unknown one was probably meant to be. At most a third of the letters may differ, because
 * a far-off suggestion misleads.
 */

export function suggest(word: string, known: readonly string[]): string | undefined {
  const meant = plainWord(word.slice(0, 100));
  const distances = known.map((candidate) => ({
    candidate,
    distance: editDistance(meant, plainWord(candidate)),
  }));
  const best = distances.sort((a, b) => a.distance - b.distance)[0];
  return best && best.distance <= Math.max(1, Math.floor(best.candidate.length / 3))
    ? best.candidate
    : undefined;
}

/** `thread_per_model`, `threadPerModel` and `ThreadPerModel` are the same word. */
export function plainWord(word: string): string {
  return word.toLowerCase().replaceAll(/[_-]/g, '');
}

/** Counts letters to insert, delete or replace, and swaps of neighbours, the most common slip: `modle`. */
function editDistance(a: string, b: string): number {
  let twoAgo: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? (twoAgo[j - 2] as number) + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, substitution, swap));
    }
    twoAgo = row;
    row = next;
  }
  return row[b.length] as number;
}
