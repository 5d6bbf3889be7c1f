/** A place is one small bug that a mutator can put into one file. */

export interface Place {
  /** Position in the text in UTF-16 units, as coverage counts them. */
  readonly start: number;
  readonly end: number;
  /** The text with the bug. */
  readonly bug: string;
  readonly kind: Kind;
}

export type Kind =
  /** A comparison takes in its bound, leaves it out, or is turned round. */
  | 'compare'
  /** Another operator, or one of its operands alone: sums, products, `and` for `or`, a bound, a default. */
  | 'operator'
  /** A condition is turned round, or always or never holds. */
  | 'condition'
  /** A number that is one more, or twice as much; the other truth value. */
  | 'constant'
  /** Slow steps are not waited for. */
  | 'await'
  /** Something is no longer called, set or returned. */
  | 'call'
  /** Two neighbouring arguments in each other's place. */
  | 'swap';

/** The next number that a programmer could have meant: off by one below eight, of another size above. */
export function otherNumber(value: number): string {
  return String(value < 8 ? value + 1 : value * 2);
}
