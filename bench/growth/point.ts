/** What the process of one point is asked, and what it answers. */

/** Everything a point's process is told. Plain data. */
export interface PointQuestion {
  readonly curve: string;
  readonly series: string;
  readonly x: number;
  /** Of its own: how often this point was measured before. */
  readonly repeat: number;
  /** Longest time for the timed calls; one is always made. */
  readonly timedMs: number;
  /** What the parent's side got ready for this point: paths, addresses. */
  readonly given: Readonly<Record<string, string>>;
}

/** Numbers of one point by their key. */
export type Sample = Readonly<Record<string, number>>;
