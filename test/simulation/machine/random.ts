/**
 * Random choices that depend on the seed, on what they are about, and on how often that was asked before. A step that is
 * left out of a history so leaves the choices about other things as they were.
 */

export class Choices {
  readonly #seed: number;
  readonly #asked = new Map<string, number>();

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** A number in [0, 1). */
  next(about: string): number {
    const count = this.#asked.get(about) ?? 0;
    this.#asked.set(about, count + 1);
    return mix(hash(about) ^ Math.imul(this.#seed, 0x9e3779b1), count);
  }

  chance(about: string, share: number): boolean {
    return share > 0 && this.next(about) < share;
  }

  /** From `least` to `most`. */
  between(about: string, least: number, most: number): number {
    return least + (most - least) * this.next(about);
  }

  whole(about: string, least: number, most: number): number {
    return Math.floor(this.between(about, least, most + 1));
  }

  pick<T>(about: string, items: readonly T[]): T {
    const item = items[this.whole(about, 0, items.length - 1)];
    if (item === undefined) throw new Error(`nothing to pick from: ${about}`);
    return item;
  }

  shuffled<T>(about: string, items: readonly T[]): T[] {
    const keyed = items.map((item, i) => ({ item, i, key: this.next(about) }));
    return keyed.sort((a, b) => a.key - b.key || a.i - b.i).map(({ item }) => item);
  }
}

function hash(text: string): number {
  let sum = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
  return sum;
}

/** murmur3's finish, twice. */
function mix(one: number, other: number): number {
  let bits = one ^ Math.imul(other + 1, 0x85ebca6b);
  for (let round = 0; round < 2; round++) {
    bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
    bits = (bits ^ (bits >>> 16)) + 0x6d2b79f5;
  }
  return (bits >>> 0) / 2 ** 32;
}
