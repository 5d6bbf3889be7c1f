/** Facts about the further models of a deployment: their pointers, what runs them, and who asked for them. */
import type { FileFacts } from '../models/inference.ts';

/** The pointer of a further model was written; without a version it was deleted. */
export interface NamedPointer {
  readonly model: string;
  readonly version: string | undefined;
  readonly atMs: number;
}

/** A request that named a further model. */
export interface NamedRequest {
  readonly model: string;
  readonly number: number;
  readonly calledMs: number;
  readonly endedMs: number;
  /** Undefined: it was answered. */
  readonly error: string | undefined;
}

/** An event of the queue that was answered. */
export interface Delivery {
  readonly startedMs: number;
  readonly atMs: number;
  readonly messages: readonly {
    readonly identity: string;
    readonly receives: number;
    /** It is delivered again. */
    readonly isReturned: boolean;
  }[];
}

/** The invariant that a process broke by what it had open. */
export interface SessionFault {
  readonly invariant:
    | 'the memory of further models'
    | 'no model is open twice'
    | 'a closed model runs nothing';
  readonly text: string;
  readonly atMs: number;
}

export class NamedFacts {
  readonly pointers: NamedPointer[] = [];
  readonly versions = new Map<string, FileFacts>();
  readonly requests: NamedRequest[] = [];
  readonly deliveries: Delivery[] = [];
  readonly faults: SessionFault[] = [];
  /** Names below which a process read an object, while there was none that ever had one. */
  readonly looked: { readonly model: string; readonly process: string; readonly atMs: number }[] = [];
  /** Names below which there was an object at any time. */
  readonly uploaded = new Set<string>();

  /** The pointer of a model at a time; undefined before the first. */
  pointerAt(model: string, atMs: number): NamedPointer | undefined {
    return this.pointers.findLast((one) => one.model === model && one.atMs <= atMs);
  }

  /** The pointers that a model had at any moment of this time. */
  pointersWithin(model: string, fromMs: number, toMs: number): NamedPointer[] {
    const first = this.pointerAt(model, fromMs);
    const later = this.pointers.filter((one) => one.model === model && one.atMs > fromMs && one.atMs <= toMs);
    return first ? [first, ...later] : later;
  }
}
