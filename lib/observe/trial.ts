/**
 * Counts what decides about a canary, while there is one, and delivers it at most once a second before an answer. An opening is
 * delivered at once: it may end the process.
 */
import { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import type { CanaryShare, Inputs, Outcome, Runner, RunPolicy } from '../contract/values.ts';
import { type SideName, TrialMeter, trialName } from '../metrics/trial.ts';
import type { Observer } from '../pipeline/observer.ts';

interface TrialWatchOptions {
  /** Adds counts to those of all environments. */
  readonly deliver: (trial: string, counts: ReadonlyMap<string, number>) => Promise<unknown>;
  /** Monotonic, in ms. */
  readonly now: () => number;
}

interface Trial {
  readonly name: string;
  readonly meter: TrialMeter;
}

const FLUSH_EVERY_MS = 1_000;
/** The pause after a failed delivery, so that not every request pays for it. */
const PAUSE_AFTER_FAILURE_MS = 30_000;
/** Failures that no version is the cause of. */
const NOT_OURS: ReadonlySet<string> = new Set(['cancelled', 'rate_limited']);

export class TrialWatch implements Observer {
  readonly #options: TrialWatchOptions;
  /** The name of a further model. */
  readonly #model: string | undefined;
  /** Those of further models, by their names. */
  readonly #further = new Map<string, TrialWatch>();
  #trial: Trial | undefined;
  #dueAt = Number.NEGATIVE_INFINITY;

  constructor(options: TrialWatchOptions, model?: string) {
    this.#options = options;
    this.#model = model;
  }

  /** Counts the canaries of a further model, and delivers them with these. */
  ofModel(name: string): TrialWatch {
    const known = this.#further.get(name) ?? new TrialWatch(this.#options, name);
    this.#further.set(name, known);
    return known;
  }

  /** An environment is about to open the canary. Never rejects. */
  async opening(canary: CanaryShare): Promise<void> {
    const { meter } = this.#of(canary);
    meter.opening('began');
    await this.#deliver();
  }

  /** It is open, or cannot be opened. */
  opened(canary: CanaryShare, error?: ServingError): void {
    this.#of(canary).meter.opening(error ? 'refused' : 'opened');
    this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  /** The same runner; each of its answers is counted. */
  counted<R extends Runner>(runner: R, canary: CanaryShare): R {
    const side = runner.version === canary.version ? 'canary' : 'serving';
    return this.#count(runner, side, this.#of(canary).meter);
  }

  /** Delivers when a second has passed since the last time. Never rejects. @returns undefined when nothing is due */
  flush(): Promise<unknown> | undefined {
    const due = [this, ...this.#further.values()].filter((one) => one.#isDue);
    return due.length === 0 ? undefined : Promise.all(due.map((one) => one.#deliver()));
  }

  get #isDue(): boolean {
    return this.#trial !== undefined && !this.#trial.meter.isEmpty && this.#options.now() >= this.#dueAt;
  }

  #of(canary: CanaryShare): Trial {
    const name = trialName(canary, this.#model);
    // The counts of another trial, which has ended, decide about nothing.
    if (this.#trial?.name !== name) this.#trial = { name, meter: new TrialMeter() };
    return this.#trial;
  }

  #count<R extends Runner>(runner: R, side: SideName, meter: TrialMeter): R {
    const { now } = this.#options;
    const ran = (outcomes: readonly Outcome[]) => {
      for (const outcome of outcomes) {
        if (outcome.ok) meter.answered(side, 1);
        else if (!NOT_OURS.has(outcome.error.code)) meter.failed(side, outcome.error.code);
      }
    };
    const failed = (error: unknown, records: number): never => {
      const failure: Outcome = { ok: false, error: ServingError.from(error) };
      ran(Array.from({ length: records }, () => failure));
      throw error;
    };
    const run = async (records: readonly Inputs[], policy?: RunPolicy): Promise<Outcome[]> => {
      const startedMs = now();
      // A request fails at its first failure, and is one answer.
      const outcomes = await runner
        .run(records, policy)
        .catch((error: unknown) => failed(error, policy?.failFast ? 1 : records.length));
      ran(policy?.failFast ? requestOf(outcomes) : outcomes);
      if (policy?.failFast) meter.took(side, now() - startedMs);
      return outcomes;
    };
    const runIsolated = runner.runIsolated?.bind(runner);
    if (!runIsolated) return { ...runner, run };
    return {
      ...runner,
      run,
      async runIsolated(records: readonly Inputs[], limitMs: number) {
        const outcomes = await runIsolated(records, limitMs).catch((error: unknown) =>
          failed(error, records.length),
        );
        ran(outcomes);
        return outcomes;
      },
    };
  }

  async #deliver(): Promise<void> {
    const trial = this.#trial;
    const counts = trial?.meter.take();
    if (!trial || !counts?.size) return;
    this.#dueAt = this.#options.now() + FLUSH_EVERY_MS;
    try {
      await this.#options.deliver(trial.name, counts);
    } catch (error) {
      trial.meter.restore(counts);
      this.#dueAt = this.#options.now() + PAUSE_AFTER_FAILURE_MS;
      logError(error, { phase: 'canary' });
    }
  }
}

/** A request as one outcome: its first failure, or an answer. */
function requestOf(outcomes: readonly Outcome[]): readonly Outcome[] {
  const failure = outcomes.find(({ ok }) => !ok);
  return failure ? [failure] : outcomes.slice(0, 1);
}
