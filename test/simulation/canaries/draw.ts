/**
 * Draws the canaries of a history, and the operators who push, promote and roll back meanwhile. All of it is drawn under names of
 * its own, so a history without them is what it was.
 */
import type { Choices } from '../machine/random.ts';
import { FLAWS } from '../models/inference.ts';
import type { EnqueueStep, OrderStep, Settings, Step } from '../steps.ts';

interface Drawn {
  readonly choices: Choices;
  readonly settings: Settings;
  readonly endMs: number;
  readonly steps: readonly Step[];
}

const MINUTE = 60_000;
/** Numbers of records, which no others have. */
const FIRST_NUMBER = 500_000;
const SHARES = [0, 0.05, 0.2, 0.5, 0.5] as const;

/** @returns all steps of the history, in no order */
export function withCanaries(drawn: Drawn): Step[] {
  const { choices, steps } = drawn;
  if (!choices.chance('canaries', 0.5)) return [...steps];
  const more = new Draft(drawn);
  for (let count = choices.whole('canaries', 1, 3); count > 0; count--) more.canary();
  more.ends();
  const keyed = steps.map((step) =>
    step.kind === 'enqueue' || step.kind === 'predict' ? more.keyed(step) : step,
  );
  return [...keyed, ...more.steps.filter(({ atMs }) => atMs <= drawn.endMs)];
}

class Draft {
  readonly steps: Step[] = [];
  readonly #drawn: Drawn;
  #versions: number;
  #number = FIRST_NUMBER;

  constructor(drawn: Drawn) {
    this.#drawn = drawn;
    const versions = drawn.steps.flatMap((step) => (step.kind === 'publish' ? [step.version] : []));
    this.#versions = Math.max(1, ...versions);
    this.steps.push({ atMs: this.#between(0, MINUTE), kind: 'schedule' });
  }

  #pick<T>(items: readonly T[]): T {
    return this.#drawn.choices.pick('canaries', items);
  }

  #between(least: number, most: number): number {
    return this.#drawn.choices.between('canaries', least, most);
  }

  #chance(share: number): boolean {
    return this.#drawn.choices.chance('canaries', share);
  }

  /** Half of what comes later comes within a few seconds. */
  #later(atMs: number): number {
    return atMs + this.#between(0, this.#pick([3_000, 3_000, 2 * MINUTE, 20 * MINUTE]));
  }

  canary(): void {
    const { endMs } = this.#drawn;
    const atMs = this.#between(0, endMs * 0.8);
    const flaw = this.#chance(0.5) ? this.#pick(FLAWS) : undefined;
    const isCrowded = flaw === 'fails' && this.#chance(0.5);
    this.#order(atMs, {
      what: 'canary',
      version: ++this.#versions,
      share: isCrowded ? 0.5 : this.#pick(SHARES),
      flaw,
    });
    if (isCrowded) this.#crowd(atMs);
    this.#records(this.#later(atMs));
    this.#records(this.#later(atMs));
    for (let count = this.#pick([0, 1, 1, 2, 3]); count > 0; count--) {
      const thenMs = this.#later(atMs);
      this.#any(thenMs);
      // Somebody else, at the same time.
      if (this.#chance(0.4)) this.#any(thenMs + this.#between(0, 150));
      if (this.#chance(0.5)) this.#records(this.#later(thenMs));
    }
  }

  #any(atMs: number): void {
    const what = this.#pick(['promote', 'promote', 'rollback', 'publish', 'canary'] as const);
    if (what === 'canary')
      this.#order(atMs, { what, version: ++this.#versions, share: this.#pick(SHARES), flaw: undefined });
    else if (what === 'publish') this.#order(atMs, { what, version: ++this.#versions });
    else this.#order(atMs, { what });
  }

  #order(atMs: number, order: OrderStep['order']): void {
    this.steps.push({ atMs, kind: 'order', order });
  }

  #records(fromMs: number): void {
    for (let count = this.#pick([2, 6, 12]); count > 0; count--) {
      const atMs = fromMs + this.#between(0, 5_000);
      if (this.#chance(0.25))
        this.steps.push(this.keyed({ atMs, kind: 'predict', client: 1, number: ++this.#number }));
      else this.#enqueue(atMs, `canary-${this.#pick([1, 2, 3, 4, 5])}`);
    }
  }

  /** As many records as a judgement needs, each under a key of its own. */
  #crowd(fromMs: number): void {
    for (let i = 0; i < 900; i++) {
      const atMs = fromMs + 30_000 + this.#between(0, 2 * MINUTE);
      this.#enqueue(atMs, `crowd-${i % 60}`, `key-${i}`);
    }
  }

  #enqueue(atMs: number, uri: string, canaryKey?: string): void {
    const { hasBridge } = this.#drawn.settings;
    const way = hasBridge ? 'sqs' : this.#pick(['sqs', 'sqs', 'https'] as const);
    const number = ++this.#number;
    const step: EnqueueStep = {
      atMs,
      kind: 'enqueue',
      client: 1,
      uri,
      number,
      what: 'good',
      way,
      notifies: false,
    };
    this.steps.push(canaryKey === undefined ? this.keyed(step) : { ...step, canaryKey });
  }

  /** Some senders say what decides about the side. */
  keyed<S extends Step>(step: S): S {
    return this.#chance(0.3) ? { ...step, canaryKey: `key-${this.#pick([1, 2, 3, 4])}` } : step;
  }

  /** The scheduled function ends, too. */
  ends(): void {
    for (let count = this.#pick([0, 0, 1, 2]); count > 0; count--)
      this.steps.push({
        atMs: this.#between(0, this.#drawn.endMs),
        kind: this.#pick(['kill', 'kill', 'reap']),
        program: 'trials',
        afterMs: this.#between(0, 500),
      });
  }
}
