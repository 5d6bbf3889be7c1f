/**
 * Counts of a canary's trial as named whole numbers that add up across environments: answers, failures by code, and how long
 * requests took, for the version that serves and for the canary.
 */
import type { CanaryShare } from '../contract/values.ts';
import { bucketOf } from './timers.ts';

export type SideName = 'serving' | 'canary';

/** Openings of the canary by environments. Each opening begins; one that has no end has ended its environment. */
export type OpeningName = 'began' | 'opened' | 'refused';

/** The answers of one of the versions. */
export interface SideCounts {
  readonly answers: number;
  readonly failures: ReadonlyMap<string, number>;
  /** Requests by how long the model took, in buckets that grow by 2^(1/8). The runs of the queue differ in size and do not count. */
  readonly buckets: ReadonlyMap<number, number>;
}

export interface TrialSums extends Readonly<Record<SideName, SideCounts>> {
  readonly openings: Readonly<Record<OpeningName, number>>;
}

/**
 * The name under which all environments count a trial: a second one of the same version starts again.
 * @param model the name of a further model, which may have the version of another. Default: the job's own
 */
export function trialName(
  { version, since }: Pick<CanaryShare, 'version' | 'since'>,
  model?: string,
): string {
  return model === undefined ? `${version} ${since}` : `${version} ${since} ${model}`;
}

/** The counts of one environment since its last delivery. */
export class TrialMeter {
  #counts = new Map<string, number>();

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  answered(side: SideName, answers: number): void {
    this.#add(`${side}|answers`, answers);
  }

  failed(side: SideName, code: string): void {
    this.#add(`${side}|failed|${code}`, 1);
  }

  took(side: SideName, ms: number): void {
    this.#add(`${side}|took|${bucketOf(ms)}`, 1);
  }

  opening(name: OpeningName): void {
    this.#add(`opening|${name}`, 1);
  }

  /** Returns everything and starts again. */
  take(): ReadonlyMap<string, number> {
    const taken = this.#counts;
    this.#counts = new Map();
    return taken;
  }

  restore(counts: ReadonlyMap<string, number>): void {
    for (const [name, count] of counts) this.#add(name, count);
  }

  #add(name: string, count: number): void {
    if (count > 0) this.#counts.set(name, (this.#counts.get(name) ?? 0) + count);
  }
}

/** Names of later releases are ignored. */
export function trialSums(counts: ReadonlyMap<string, number>): TrialSums {
  const of = (name: string) => counts.get(name) ?? 0;
  const below = (prefix: string) =>
    [...counts].flatMap(([name, count]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), count] as const] : [],
    );
  const side = (name: SideName): SideCounts => ({
    answers: of(`${name}|answers`),
    failures: new Map(below(`${name}|failed|`)),
    buckets: new Map(below(`${name}|took|`).map(([bucket, count]) => [Number(bucket), count])),
  });
  return {
    serving: side('serving'),
    canary: side('canary'),
    openings: { began: of('opening|began'), opened: of('opening|opened'), refused: of('opening|refused') },
  };
}
