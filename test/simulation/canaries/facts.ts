/** Facts about the pointer to the versions of the model, those who move it, and those who read it. */
import type { Activation, EndedCanary, RunningCanary } from '../../../lib/registry/pointer.ts';
import type { Flaw } from '../models/inference.ts';

/** The content of current.json, as far as it says which versions answer. */
export interface PointerText {
  readonly version: string;
  readonly history: readonly Activation[];
  readonly canary?: Pick<RunningCanary, 'version' | 'since' | 'share'> | undefined;
  readonly ended?: EndedCanary | undefined;
}

/** The pointer was written. */
export interface PointerFact extends PointerText {
  readonly by: string;
  readonly atMs: number;
}

/** The facts in a version's file. */
export interface VersionFact {
  readonly number: number;
  readonly flaw: Flaw | undefined;
}

/** A process read the pointer. */
export interface LookedFact {
  readonly kind: 'looked';
  readonly process: string;
  readonly pointer: PointerFact;
  readonly atMs: number;
}

/** A process ran records of a version. */
export interface RanFact {
  readonly kind: 'ran';
  readonly process: string;
  readonly numbers: readonly number[];
  /** As its file says. */
  readonly version: number;
  readonly atMs: number;
}

/** An operator's order, in a process of its own. */
export interface OrderFact {
  readonly by: string;
  readonly what: 'canary' | 'promote' | 'rollback' | 'publish';
  /** Undefined: it succeeded. */
  readonly error: string | undefined;
}

/** One call of the scheduled function that began while a canary ran, and answered. */
export interface LookFact {
  readonly canary: PointerFact['canary'];
  readonly startedMs: number;
  readonly endedMs: number;
  /** The counts of the canary in Redis, before and after. */
  readonly counts: readonly [before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>];
}

export class CanaryFacts {
  readonly pointers: PointerFact[] = [];
  readonly versions = new Map<string, VersionFact>();
  /** Who ran what and knew which pointer, in the order of time. */
  readonly seen: (LookedFact | RanFact)[] = [];
  /** The key that decides about the side of a record, by its number. */
  readonly keys = new Map<number, string>();
  readonly orders: OrderFact[] = [];
  readonly looks: LookFact[] = [];

  get pointer(): PointerFact | undefined {
    return this.pointers.at(-1);
  }

  /** True for a version that an operator can see to be bad. */
  isFlawed(id: string | undefined): boolean {
    return id !== undefined && this.versions.get(id)?.flaw !== undefined;
  }
}
