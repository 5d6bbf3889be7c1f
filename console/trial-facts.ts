/** The versions on trial, as a service tells them to the page. */

/** A version on trial. */
interface Tried {
  readonly version: string;
  /** ISO 8601. */
  readonly since: string;
}

/** Versions on trial beside the one that serves, as of the last look: `found` is absent before the first. */
export interface TrialFacts {
  readonly canary?:
    | (Tried & {
        /** From 0 to 0.5. */
        readonly share: number;
        readonly found?:
          | {
              readonly golden: 'passed' | 'none' | 'asking';
              readonly verdict: string;
              /** With the answers of both versions. */
              readonly reason: string;
            }
          | undefined;
      })
    | undefined;
  readonly shadow?:
    | (Tried & {
        readonly found?:
          | {
              readonly compared: number;
              readonly flips: number;
              readonly differ: number;
              readonly otherEnds: number;
              readonly notReplayable: number;
              readonly problem?: string | undefined;
            }
          | undefined;
      })
    | undefined;
  /** The end of the canary before. */
  readonly ended?:
    | { readonly version: string; readonly end: string; readonly reason: string; readonly at: string }
    | undefined;
}

/** The trial of a further model. */
export interface FurtherTrial extends TrialFacts {
  readonly model: string;
}
