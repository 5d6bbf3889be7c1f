/**
 * Draws the further models of a history: pushes of their versions, deletions, and records and requests that name one. All of it is
 * drawn under a name of its own, so a history without them is what it was.
 */
import type { Choices } from '../machine/random.ts';
import { FURTHER, type Kind } from '../models/inference.ts';
import { JOB } from '../stage.ts';
import type { EnqueueStep, NamedOrder, Settings, Step } from '../steps.ts';

interface Drawn {
  readonly choices: Choices;
  readonly settings: Settings;
  readonly endMs: number;
  readonly steps: readonly Step[];
}

const MINUTE = 60_000;
const SECOND = 1_000;
/** Numbers of records, which no others have. */
const FIRST_NUMBER = 800_000;
/** Names that are never pushed; the last two differ from one that is there in a letter, and in its case. */
const UNKNOWN = ['nobody', 'frauds', 'Fraud'] as const;
/** How long a version that does not open may serve, before somebody pushes another one. */
const BROKEN_MS = 6 * MINUTE;
/** Beside the 32 MB that the product keeps free. */
const SMALL_DISK_BYTES = 32 * 1024 * 1024 + 24_000;

/** `models` in config.yaml, and what surrounds it. Undefined: the job has its own model only. */
export function drawNamed(choices: Choices): Settings['named'] {
  if (!choices.chance('named', 0.4)) return undefined;
  const names = FURTHER.slice(0, choices.whole('named', 2, FURTHER.length));
  // One, two or three small models, or all.
  const memoryMB = choices.pick('named', [3, 5, 5, 7, 64]);
  return {
    names,
    memoryMB,
    pinned: memoryMB >= 7 && choices.chance('named', 0.3) ? names.slice(0, 1) : [],
    diskBytes: choices.chance('named', 0.3) ? SMALL_DISK_BYTES : undefined,
  };
}

/** @returns all steps of the history, in no order */
export function withNamed(drawn: Drawn): readonly Step[] {
  const { settings, steps, endMs } = drawn;
  if (!settings.named) return steps;
  const more = new Draft(drawn, settings.named);
  more.first();
  more.orders();
  more.bursts();
  more.requests();
  return [...steps, ...more.steps.filter(({ atMs }) => atMs >= 0 && atMs <= endMs)];
}

class Draft {
  readonly steps: Step[] = [];
  readonly #drawn: Drawn;
  readonly #named: NonNullable<Settings['named']>;
  readonly #versions = new Map<string, number>();
  readonly #busy: number[] = [];
  #number = FIRST_NUMBER;

  constructor(drawn: Drawn, named: NonNullable<Settings['named']>) {
    this.#drawn = drawn;
    this.#named = named;
  }

  #pick<T>(items: readonly T[]): T {
    return this.#drawn.choices.pick('named', items);
  }

  #between(least: number, most: number): number {
    return this.#drawn.choices.between('named', least, most);
  }

  #chance(share: number): boolean {
    return this.#drawn.choices.chance('named', share);
  }

  /** Most models are there early, so that records find them. */
  first(): void {
    for (const model of this.#named.names)
      this.#push(model, this.#chance(0.8) ? this.#between(0, 5 * SECOND) : this.#anyTime());
  }

  #anyTime(): number {
    return this.#between(0, this.#drawn.endMs * 0.9);
  }

  orders(): void {
    for (let count = this.#pick([0, 1, 2, 4]); count > 0; count--) {
      const model = this.#pick(this.#named.names);
      const atMs = this.#anyTime();
      this.#busy.push(atMs);
      const what = this.#pick(['push', 'push', 'flawed', 'flawed', 'rollback', 'delete'] as const);
      if (what === 'push') this.#push(model, atMs);
      else if (what === 'rollback') this.#order(atMs, { what, model });
      else if (what === 'delete') {
        this.#order(atMs, { what, model });
        if (this.#chance(0.7)) this.#push(model, atMs + this.#between(20 * SECOND, 10 * MINUTE));
      } else {
        this.#order(atMs, {
          what: 'push',
          model,
          version: this.#next(model),
          flaw: this.#pick(['broken', 'broken', 'ends', 'fails']),
          memoryMB: undefined,
        });
        this.#push(model, atMs + this.#between(20 * SECOND, BROKEN_MS));
      }
    }
  }

  #next(model: string): number {
    const version = 1 + (this.#versions.get(model) ?? 0);
    this.#versions.set(model, version);
    return version;
  }

  /** Some take more memory than their files say. A pinned one leaves room for those. */
  #push(model: string, atMs: number): void {
    const isLarge = this.#named.pinned.length === 0 && this.#chance(0.2);
    const version = this.#next(model);
    this.#order(atMs, { what: 'push', model, version, flaw: undefined, memoryMB: isLarge ? 2 : undefined });
  }

  #order(atMs: number, order: NamedOrder): void {
    this.steps.push({ atMs, kind: 'named', order });
  }

  /** Records that come together, most of them soon after what changes or disturbs. */
  bursts(): void {
    const troubles = this.#drawn.steps.flatMap(({ kind, atMs }) =>
      kind === 'service' || kind === 'redis' || kind === 'kill' || kind === 'network' ? [atMs] : [],
    );
    const near = [...this.#busy, ...troubles];
    for (let count = this.#pick([1, 2, 4, 6]); count > 0; count--) {
      const isNear = near.length > 0 && this.#chance(0.7);
      const fromMs = isNear ? this.#pick(near) + this.#between(-2 * SECOND, 20 * SECOND) : this.#anyTime();
      const lengthMs = this.#pick([20, 200, 5 * SECOND]);
      const models = this.#models();
      for (let records = this.#pick([3, 8, 15, 25]); records > 0; records--)
        this.#enqueue(Math.max(6 * SECOND, fromMs) + this.#between(0, lengthMs), this.#pick(models));
    }
  }

  /** Those that a burst names: two or all of them, the job's own, and one that is never pushed. */
  #models(): readonly string[] {
    const { names } = this.#named;
    const further = this.#chance(0.5) ? names : names.slice(0, 2);
    const own = this.#chance(0.5) ? [JOB] : [];
    return [...further, ...own, ...(this.#chance(0.4) ? [this.#pick(UNKNOWN)] : [])];
  }

  #enqueue(atMs: number, model: string): void {
    const { hasBridge, clients } = this.#drawn.settings;
    const isPoison = this.#chance(0.05);
    const what: Kind = isPoison ? this.#pick(['fails', 'crashes', 'endless', 'slow']) : 'good';
    const step: EnqueueStep = {
      atMs,
      kind: 'enqueue',
      client: this.#drawn.choices.whole('named', 1, clients),
      uri: `named-${this.#drawn.choices.whole('named', 1, 20)}`,
      number: ++this.#number,
      what,
      way: hasBridge ? 'sqs' : this.#pick(['sqs', 'sqs', 'https']),
      notifies: false,
      model: model === JOB ? undefined : model,
    };
    this.steps.push(step);
  }

  /** One after the other, so that environments are warm, and mostly around a change. */
  requests(): void {
    for (let count = this.#pick([0, 1, 2, 3]); count > 0; count--) {
      const isNear = this.#busy.length > 0 && this.#chance(0.7);
      let atMs = isNear ? this.#pick(this.#busy) - this.#between(0, MINUTE) : this.#anyTime();
      const models = this.#chance(0.5) ? [this.#pick(this.#named.names)] : this.#named.names;
      const pauseMs = this.#pick([2 * SECOND, 20 * SECOND, 80 * SECOND]);
      for (let calls = this.#pick([3, 6, 9]); calls > 0; calls--) {
        atMs += this.#between(0, 2 * pauseMs);
        this.#predict(atMs, this.#chance(0.1) ? this.#pick(UNKNOWN) : this.#pick(models));
      }
    }
  }

  #predict(atMs: number, model: string): void {
    this.steps.push({
      atMs: Math.max(6 * SECOND, atMs),
      kind: 'predict',
      client: 1,
      number: ++this.#number,
      model,
    });
  }
}
