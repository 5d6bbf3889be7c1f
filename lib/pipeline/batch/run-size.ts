/**
 * Finds how many rows a run should have, from how long runs take. More rows share what a call costs, but what a model computes
 * between its layers must fit into the processor's caches: a convnet may take a fifth longer for a row in runs of 32 than in
 * runs of 4. Other sizes are tried from time to time, and taken when they are clearly faster.
 */

/** The factor between one tried size and the next. Sizes that differ by a factor of 2 are too close to measure. */
const STEP = 4;
/** Runs of one size that are compared, by the fastest of them. */
const SAMPLES = 3;
/** Another size must be faster by so much. */
const CLEARLY = 0.95;
/** A trial ends after this many runs, even if too few had its size. */
const TRIAL_RUNS = 12;
/** Runs between two trials: at first, and when other sizes were slower again and again. */
const FIRST_PAUSE = SAMPLES;
const LONGEST_PAUSE = 1_024;
/** Batches may be smaller than a run could be, so the largest of the last runs is taken as the achievable size. */
const REACH_RUNS = 64;

export class RunSize {
  readonly #most: number;
  readonly now: () => number;
  #size: number;
  #candidate: number | undefined;
  /** The rows of the largest batches, as far as runs show them. */
  #reach = 0;
  #largest = 0;
  #reachRuns = 0;
  /** ms a row, of the latest runs of the size, and of the trial. */
  #costs: number[] = [];
  #candidateCosts: number[] = [];
  /** Since the last trial ended, or in this one. */
  #runs = 0;
  #pause = FIRST_PAUSE;
  #isUpward = false;

  /**
   * @param most rows of a run
   * @param now a clock in ms
   */
  constructor(most: number, now: () => number) {
    this.#most = most;
    this.#size = most;
    this.now = now;
  }

  /** Most rows of the next run. */
  get rows(): number {
    return this.#candidate ?? this.#size;
  }

  /** A run has ended. Smaller runs are ignored; in a trial, any run larger than the old size counts. */
  ran(rows: number, tookMs: number): void {
    this.#runs++;
    if (!this.#candidate) this.#follow(rows);
    const isLarger = this.#candidate !== undefined && rows > this.#size;
    if (rows === (this.#candidate ?? this.#full) || isLarger)
      keepLatest(this.#candidate ? this.#candidateCosts : this.#costs, tookMs / rows);
    if (this.#candidate) this.#judge(this.#candidate);
    else if (this.#runs >= this.#pause && this.#costs.length === SAMPLES) this.#try();
  }

  /** The rows of a run that had as many as it might. */
  get #full(): number {
    return Math.min(this.#size, this.#reach);
  }

  #follow(rows: number): void {
    this.#largest = Math.max(this.#largest, rows);
    const isOver = ++this.#reachRuns >= REACH_RUNS;
    if (rows > this.#reach || (isOver && this.#largest < this.#reach)) {
      this.#reach = this.#largest;
      this.#costs = [];
    }
    if (!isOver) return;
    this.#largest = 0;
    this.#reachRuns = 0;
  }

  #try(): void {
    const from = this.#isUpward ? this.#size : this.#full;
    const other = this.#isUpward ? Math.min(this.#most, STEP * from) : Math.ceil(from / STEP);
    this.#runs = 0;
    if (other === from) this.#isUpward = !this.#isUpward;
    else this.#candidate = other;
  }

  #judge(candidate: number): void {
    const isMeasured = this.#candidateCosts.length === SAMPLES;
    if (!isMeasured && this.#runs < TRIAL_RUNS) return;
    if (isMeasured && Math.min(...this.#candidateCosts) < CLEARLY * Math.min(...this.#costs)) {
      this.#size = candidate;
      this.#costs = this.#candidateCosts;
      this.#pause = FIRST_PAUSE;
    } else {
      this.#isUpward = !this.#isUpward;
      this.#pause = Math.min(LONGEST_PAUSE, 2 * this.#pause);
    }
    this.#candidate = undefined;
    this.#candidateCosts = [];
    this.#runs = 0;
  }
}

function keepLatest(costs: number[], cost: number): void {
  costs.push(cost);
  if (costs.length > SAMPLES) costs.shift();
}
