/**
 * The API that the page uses, below `console/api/`. The page and both servers (local/console, cli/console) share it. It
 * holds only types, and the few facts that both sides must know.
 */

import type { FurtherTrial, TrialFacts } from './trial-facts.ts';

export type { FurtherTrial, TrialFacts };

/** A value, or the reason why it cannot be shown. */
export type Part<T> = T | Unavailable;

export interface Unavailable {
  readonly unavailable: string;
}

export interface PortFacts {
  readonly name: string;
  readonly dtype: string;
  /** As the model declares it; a text is a free size. */
  readonly shape: readonly (number | string)[];
  /** The shape of an instance, without the batch dimension where the service adds it. */
  readonly row: readonly (number | string)[];
  readonly takes: 'numbers' | 'text' | 'image';
  /** The size to which pictures for this input are resized. */
  readonly image?: { readonly width: number; readonly height: number; readonly isGrey: boolean };
  /** True: a request may omit this input. */
  readonly optional?: boolean;
  /** The names of the last axis: columns of an input, classes of an output. */
  readonly names?: readonly string[];
}

/** GET console/api/model */
export interface ModelFacts {
  readonly job: string;
  /** The version of this software. */
  readonly release: string;
  readonly kind: 'model' | 'worker';
  /** The class of a worker. */
  readonly worker?: string;
  readonly version: string;
  readonly inputs: Part<readonly PortFacts[]>;
  readonly outputs: Part<readonly PortFacts[]>;
  /** Says as a sentence whether records share runs, and why. */
  readonly batching: Part<{ readonly why: string }>;
  /** The filter of the job; empty for none. */
  readonly filter: string;
  /** Facts that the import and the verification want a person to know. */
  readonly notes: readonly string[];
  /** The import report, as text. */
  readonly report: Part<{ readonly text: string }>;
  /** The names of further models behind the same address; absent for a worker. */
  readonly further?: Part<readonly string[]> | undefined;
  readonly caller: Caller;
}

/** GET console/api/example: a request that the model answers. */
export interface Example {
  /** The body for POST /predict. */
  readonly body: string;
  /** It was stored beside the model, so its values mean something. */
  readonly isGolden: boolean;
}

/** How programs reach the service. */
export interface Caller {
  /** Absent: the origin of the page. */
  readonly url?: string;
  /** The CloudFormation stack, if deployed. */
  readonly stack?: string;
  readonly auth: 'none' | 'token' | 'iam' | 'jwt' | 'api-key';
  /** The region to sign for. */
  readonly region?: string;
}

/** Ten seconds. A time is in ms; null: nothing was measured. */
export interface Step {
  readonly requests: number;
  readonly arrived: number;
  readonly finished: number;
  readonly failed: number;
  readonly batches: number;
  /** Records of the largest batch. */
  readonly largest: number;
  /** Records of all batches. */
  readonly batched: number;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
  /** The longest that a record waited in the queue, of those that were taken from it. */
  readonly waited: number | null;
  /** Messages that waited or were with a function at the end of the step. */
  readonly depth: number | null;
  /** The share of time that the workers were busy, 0 to 1. */
  readonly util: number;
  readonly workers: number;
}

export const STEP_MS = 10_000;
/** An hour. */
export const STEPS = 360;

/** GET console/api/live */
export interface LiveFacts {
  /** ISO 8601. */
  readonly since: string;
  /** When the last step ended, in ms since 1970. */
  readonly endedAt: number;
  /** The oldest first, at most STEPS. */
  readonly steps: readonly Step[];
  readonly total: Pick<Step, 'requests' | 'finished' | 'failed'>;
}

/** GET console/api/live of a deployment, whose functions keep no history: the timers since the job began. */
export interface TimerFacts {
  readonly timers: readonly {
    readonly name: string;
    readonly count: number;
    readonly mean: number;
    readonly median: number;
    readonly p99: number;
  }[];
  /** The reason why the list ends here. */
  readonly why: string;
}

export interface RecordFacts {
  readonly uri: string;
  readonly identity: string;
  readonly status: 'succeeded' | 'failed';
  /** ISO 8601. */
  readonly finishedAt: string;
  /** The version of the model; empty where none ran it. */
  readonly model: string;
  /** The beginning of the result. */
  readonly result?: string;
  readonly error?: string;
  readonly code?: string;
}

/** How many records the service remembers. */
export const MOST_RECORDS = 200;

/** GET console/api/records: the newest first. */
export interface RecentRecords {
  readonly records: readonly RecordFacts[];
}

/** GET console/api/dead-letters, with `?after=id` for the next. */
export interface DeadLetterPage {
  readonly letters: readonly {
    readonly id: string;
    readonly uri?: string | undefined;
    /** ISO 8601. */
    readonly archivedAt: string;
    readonly attempts?: number | undefined;
    readonly bytes: number;
    readonly reason: string;
  }[];
  /** There are more after this one. */
  readonly next?: string | undefined;
  /** Why none can be replayed from here; absent where they can. */
  readonly noReplay?: string | undefined;
}

/** GET console/api/dead-letter?id=: a record as a person changes it. POST console/api/edit {"id", "payload"} enqueues it. */
export interface EditableLetter {
  readonly text: string;
}

/** The longest payload that is changed in the page. */
export const EDIT_CHARACTERS = 200_000;

/** A target of notices. The counts are of what was looked at: the first objects and messages. */
export interface TargetFacts {
  readonly name: string;
  readonly waiting: number;
  readonly givenUp: number;
  /** Why a notice was given up. */
  readonly reason: string | undefined;
  readonly isPaused: boolean;
}

/** GET console/api/notices: what targets of `notify` in config.yaml wait for. POST console/api/resume {"target"} sends again. */
export interface NoticeFacts {
  /** Notices that come again, and events of S3. */
  readonly waiting: number;
  /** Objects of the outbox, each with up to 500 notices. */
  readonly outbox: number;
  readonly givenUp: number;
  readonly paused: readonly string[];
  /** Those that something waits for, was given up of, or that are paused. */
  readonly targets: readonly TargetFacts[];
}

/** GET console/api/versions: the newest first. POST console/api/promote and console/api/end {"version"} end a trial. */
export interface Versions {
  readonly versions: readonly {
    readonly version: string;
    readonly uploadedAt: string;
    readonly bytes: number;
    readonly format?: string | undefined;
    readonly batching?: string | undefined;
    readonly serves: boolean;
    /** The target of a rollback. */
    readonly before: boolean;
    readonly trial?: 'canary' | 'shadow' | undefined;
  }[];
  readonly trial: TrialFacts;
  /** Further models with a version on trial. */
  readonly further: readonly FurtherTrial[];
  /** How long a new choice takes to be served, in seconds. */
  readonly refreshSeconds: number;
}

/** The answer to POST console/api/replay {"id"} and POST console/api/activate {"version"}: what was done, as a sentence. */
export interface Done {
  readonly done: string;
}

/** Every action carries it, so that no form and no simple request of another page can make one. */
export const ACTION_HEADER = 'x-console-action';
