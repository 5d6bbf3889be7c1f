/** Captures, and the last replay of them, as a service tells the page. */
import type { Part } from './api.ts';

/** The report of a replay, as the page shows it. Counts are of records. */
export interface ReplayFacts {
  /** The version of this form. */
  readonly form: 1;
  /** ISO 8601. */
  readonly at: string;
  /** The version that was asked. */
  readonly model: string;
  readonly compared: number;
  readonly flips: number;
  /** Why it is not good; empty for a good one. */
  readonly problems: readonly string[];
  readonly outputs: readonly {
    readonly output: string;
    readonly records: number;
    /** By distance, as shares of the spread; without `upTo` the rest. */
    readonly distribution: readonly { readonly upTo?: number | undefined; readonly records: number }[];
    readonly classes?:
      | readonly {
          readonly name: string;
          readonly before: number;
          readonly after: number;
          readonly flips: number;
        }[]
      | undefined;
  }[];
  readonly worst: readonly {
    readonly id: string;
    readonly at: number;
    readonly output: string;
    /** Null: another form. */
    readonly distance: number | null;
  }[];
}

/** GET console/api/captures */
export interface CaptureFacts {
  /** Requests and records that were to be captured and could not be stored. */
  readonly lost: number;
  /** The report of the last `model replay`. */
  readonly replay: Part<ReplayFacts>;
}
