/**
 * Counts what an environment costs, adds it to the sums of all environments now and then, and refuses requests when those
 * have reached a limit. While the sums are away nothing is refused that was not refused before: what they were is a fact
 * until the day is over.
 */
import { BUDGET_DELIVERY_SECONDS, type BudgetLimits, type Reached, type Spent } from '../contract/budget.ts';
import { ServingError } from '../contract/errors.ts';
import { logError } from '../contract/log.ts';
import type { Caller } from '../contract/values.ts';
import { objectCost } from '../metrics/cost.ts';
import { dayOf, reachedLimit, reachedText, retryAfterSeconds, spentNow } from '../metrics/spent.ts';

export interface BudgetOptions {
  readonly limits: BudgetLimits;
  /** Adds to the sums of all environments, and answers them. @throws results_unavailable */
  readonly add: (month: string, dollars: ReadonlyMap<string, number>) => Promise<ReadonlyMap<string, number>>;
  /** Monotonic, in ms. */
  readonly now: () => number;
  /** Ms since 1970. */
  readonly date: () => number;
  /** A request is refused. */
  readonly onRefused: (reached: Reached) => void;
}

interface Limiting {
  acquire(caller?: Caller): Promise<void>;
}

const DELIVER_EVERY_MS = BUDGET_DELIVERY_SECONDS * 1000;
/** The pause after a failed delivery, so that not every request pays for it. */
const PAUSE_AFTER_FAILURE_MS = 30_000;
/** The field of the whole month, beside one for each day. */
const MONTH_FIELD = 'month';

export class Budget {
  /** Why the sums could not be reached when they were last asked; undefined when they answered. */
  away: ServingError | undefined;
  /** Called once for each limit that is reached, by the environment that learns of it. Its failure is logged. */
  onReached: ((spent: Spent) => Promise<unknown>) | undefined;
  readonly #options: BudgetOptions;
  #pending = 0;
  #spent: Spent | undefined;
  #dueAt = Number.NEGATIVE_INFINITY;
  #reportedUntilMs = 0;

  constructor(options: BudgetOptions) {
    this.#options = options;
  }

  spend(dollars: number): void {
    this.#pending += dollars;
  }

  /** Requests of S3. */
  readonly spendObjects = (puts: number, gets: number): void => this.spend(objectCost(puts, gets));

  /** By the sums of the last answer. */
  reached(): Reached | undefined {
    return reachedLimit(this.#options.limits, this.#spent, this.#options.date());
  }

  /** Asks for the sums, before the first request. Never rejects. */
  async open(): Promise<void> {
    // The first answer has more to add.
    if (await this.#deliver()) this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  /** The sums of this day and month, with what this environment has to add. @throws results_unavailable */
  async read(): Promise<Spent> {
    await this.#add();
    return spentNow(this.#spent, this.#options.date());
  }

  /** Refuses a request over the budget, before another limiter is asked. */
  before(next: Limiting | undefined): Limiting {
    return {
      acquire: async (caller) => {
        const reached = this.reached();
        if (!reached) return next?.acquire(caller);
        this.#options.onRefused(reached);
        throw new ServingError('rate_limited', reachedText(reached), {
          retryAfterSeconds: retryAfterSeconds(reached, this.#options.date()),
        });
      },
    };
  }

  /** Delivers before the first answer, because an environment may have no second one. Never rejects. @returns undefined when nothing is due */
  flush(): Promise<unknown> | undefined {
    return this.#pending === 0 || this.#options.now() < this.#dueAt ? undefined : this.#deliver();
  }

  async #deliver(): Promise<boolean> {
    try {
      await this.#add();
      return true;
    } catch (error) {
      this.#dueAt = this.#options.now() + PAUSE_AFTER_FAILURE_MS;
      logError(error, { phase: 'budget' });
      return false;
    }
  }

  /** Dollars that could not be added count in the day in which it can be. */
  async #add(): Promise<void> {
    const { add, now, date } = this.#options;
    const dollars = this.#pending;
    const today = dayOf(date());
    const dayField = today.date.slice(-2);
    this.#pending = 0;
    this.#dueAt = now() + DELIVER_EVERY_MS;
    try {
      const amounts = new Map([
        [dayField, dollars],
        [MONTH_FIELD, dollars],
      ]);
      const sums = await add(today.month, amounts);
      this.away = undefined;
      this.#spent = { date: today.date, day: sums.get(dayField) ?? 0, month: sums.get(MONTH_FIELD) ?? 0 };
    } catch (error) {
      this.spend(dollars);
      this.away = ServingError.from(error);
      throw error;
    }
    await this.#report();
  }

  async #report(): Promise<void> {
    const reached = this.reached();
    if (!reached || !this.#spent || !this.onReached || this.#reportedUntilMs === reached.untilMs) return;
    this.#reportedUntilMs = reached.untilMs;
    await this.onReached(this.#spent).catch((error: unknown) => {
      this.#reportedUntilMs = 0;
      logError(error, { phase: 'budget' });
    });
  }
}
