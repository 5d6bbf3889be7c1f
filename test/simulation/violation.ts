/** A broken invariant. */
import type { History } from './history.ts';

export interface Violation {
  readonly invariant: string;
  readonly text: string;
  readonly atMs: number;
  /** Uris that it is about. */
  readonly about: readonly string[];
}

export type Invariant = (history: History) => Violation[];
