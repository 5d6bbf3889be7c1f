/** The settings of a deployment, and the steps of its history. */
import type { Way } from './history.ts';
import type { Flaw, Kind } from './models/inference.ts';

export interface Settings {
  readonly timeoutSeconds: number;
  readonly rowsOfRun: number;
  readonly eventSize: number;
  readonly environments: number;
  readonly maxReceiveCount: number;
  /** Deliveries before the queue gives a record up. 1,000 in a deployment; fewer in a queue that somebody set up otherwise. */
  readonly redriveAfter: number;
  readonly refreshSeconds: number;
  readonly sharesRuns: boolean;
  readonly openMs: number;
  readonly runMs: number;
  readonly childStartMs: number;
  readonly clients: number;
  readonly hasBridge: boolean;
  /** The longest delay of the network, which few bytes have. */
  readonly tailMs: number;
  /** The job captures all requests and records. */
  readonly captures: boolean;
  /** The job has a target, and some records name it. */
  readonly notifies: boolean;
  /** The deployment takes jobs over files. */
  readonly takesFiles: boolean;
  /** The share of calls to the target that go wrong. */
  readonly receiverFails: number;
  /** Undefined: the job has its own model only. */
  readonly named: NamedSettings | undefined;
}

export interface NamedSettings {
  /** Further models that are pushed. */
  readonly names: readonly string[];
  readonly memoryMB: number;
  readonly pinned: readonly string[];
  /** The disk of an environment. Default: that of Lambda. */
  readonly diskBytes: number | undefined;
}

interface Timed {
  readonly atMs: number;
}

interface OfClient extends Timed {
  readonly client: number;
  readonly uri: string;
}

export interface EnqueueStep extends OfClient {
  readonly kind: 'enqueue';
  readonly number: number;
  readonly what: Kind;
  readonly way: Way;
  readonly notifies: boolean;
  /** Decides about its side. Default: its uri. */
  readonly canaryKey?: string;
  /** The further model that it names. Default: none. */
  readonly model?: string | undefined;
}

export interface ReadStep extends OfClient {
  readonly kind: 'query' | 'wait' | 'take';
  /** It asks for the latest enqueue that was accepted. */
  readonly isOwn: boolean;
  readonly isHttps: boolean;
}

export interface AskStep extends OfClient {
  readonly kind: 'status' | 'cancel' | 'dequeue';
  readonly isHttps: boolean;
}

export interface PredictStep extends Timed {
  readonly kind: 'predict';
  readonly client: number;
  readonly number: number;
  readonly canaryKey?: string;
  /** The further model that it names. Default: none. */
  readonly model?: string | undefined;
}

/** For how long something is wrong. */
interface Lasting extends Timed {
  readonly forMs: number;
}

export interface RedisStep extends Lasting {
  readonly kind: 'redis';
  readonly how: 'refused' | 'silent' | 'reset' | 'restart';
}

export interface ServiceStep extends Lasting {
  readonly kind: 'service';
  readonly service: 's3' | 'sqs';
  readonly how: 'lost' | 'refused' | 'errors' | 'unanswered' | 'partial';
  readonly share: number;
}

export interface DeliveryStep extends Lasting {
  readonly kind: 'delivery';
  readonly twice: number;
  readonly lostDelete: number;
  readonly delayMs: number;
}

/** A process is killed so long after its next invocation began, or an idle environment is given up. */
export interface EndStep extends Timed {
  readonly kind: 'kill' | 'reap';
  readonly program: string;
  readonly afterMs: number;
}

export type CallStep = EnqueueStep | ReadStep | AskStep | PredictStep;

export type ChangeStep =
  | NamedStep
  | OrderStep
  | ScheduleStep
  | (Timed &
      (
        | { readonly kind: 'publish'; readonly version: number }
        | { readonly kind: 'rollback' }
        | { readonly kind: 'deploy'; readonly ttlSeconds: number }
      ));

export type TroubleStep =
  | RedisStep
  | ServiceStep
  | DeliveryStep
  | EndStep
  | (Lasting & { readonly kind: 'network'; readonly slowMs: number })
  | (Timed &
      (
        | { readonly kind: 'forget' }
        | { readonly kind: 'clock'; readonly jumpMs: number }
        | { readonly kind: 'bridge'; readonly downMs: number }
      ));

/** Somebody asks for a job over files with so many rows each. */
export interface FilesStep extends Timed {
  readonly kind: 'files';
  readonly rows: readonly number[];
}

export type Step = CallStep | ChangeStep | FilesStep | TroubleStep;

export interface Plan {
  readonly seed: number;
  readonly settings: Settings;
  /** Nothing more begins after this time. */
  readonly endMs: number;
  readonly steps: readonly Step[];
}

export interface OrderStep {
  readonly atMs: number;
  readonly kind: 'order';
  readonly order:
    | {
        readonly what: 'canary';
        readonly version: number;
        readonly share: number;
        readonly flaw: Flaw | undefined;
      }
    | { readonly what: 'publish'; readonly version: number }
    | { readonly what: 'promote' }
    | { readonly what: 'rollback' };
}

export type NamedOrder =
  | {
      readonly what: 'push';
      readonly model: string;
      readonly version: number;
      readonly flaw: Flaw | undefined;
      /** As its import measured it. Undefined: it did not. */
      readonly memoryMB: number | undefined;
    }
  | { readonly what: 'rollback'; readonly model: string }
  | { readonly what: 'delete'; readonly model: string };

/** An order about a further model. */
export interface NamedStep {
  readonly atMs: number;
  readonly kind: 'named';
  readonly order: NamedOrder;
}

/** From then on the scheduled function is called each minute. */
export interface ScheduleStep {
  readonly atMs: number;
  readonly kind: 'schedule';
}
