/**
 * Random choices that depend only on a seed. A fault that was found must be found again, so nothing in this folder
 * uses Math.random.
 */

/** Returns numbers in [0, 1), by mulberry32. */
export type Random = () => number;

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A whole number from `least` to `most`, both included. */
export function whole(random: Random, least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1));
}

export function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[whole(random, 0, items.length - 1)];
  if (item === undefined) throw new Error('there is nothing to pick from');
  return item;
}

export function shuffled<T>(random: Random, items: readonly T[]): T[] {
  const mixed = [...items];
  for (let last = mixed.length - 1; last > 0; last--) {
    const other = whole(random, 0, last);
    [mixed[last], mixed[other]] = [mixed[other] as T, mixed[last] as T];
  }
  return mixed;
}

/** Cut into pieces of random lengths up to `most`. */
export function pieces<T>(random: Random, items: readonly T[], most: number): T[][] {
  const cut: T[][] = [];
  for (let start = 0; start < items.length; ) {
    const length = whole(random, 1, most);
    cut.push(items.slice(start, start + length));
    start += length;
  }
  return cut;
}
