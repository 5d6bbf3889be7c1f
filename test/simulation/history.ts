/** The facts of a simulated deployment, which the invariants judge and a story tells. */
import { CanaryFacts } from './canaries/facts.ts';
import type { Kind } from './models/inference.ts';
import { NamedFacts } from './named/facts.ts';

export type Way = 'sqs' | 'https' | 'stream';

/** One call of `enqueue`, or one entry of the stream. */
export interface EnqueueFact {
  readonly uri: string;
  /** Its record's number, which no other record has. */
  readonly number: number;
  readonly kind: Kind;
  readonly way: Way;
  readonly client: string;
  readonly calledMs: number;
  /** Known when it is called, except for an entry of the stream. */
  identity: string | undefined;
  endedMs: number | undefined;
  isAccepted: boolean;
  /** A target is notified of its outcome. */
  readonly notifies: boolean;
  /** The further model that it names. Undefined: none. */
  readonly model: string | undefined;
}

/** A notice that the receiver took. */
export interface NoticeFact {
  readonly id: string;
  readonly uri: string;
  readonly identity: string;
  readonly status: string;
  readonly atMs: number;
}

/** A message that SQS took. */
export interface MessageFact {
  readonly id: string;
  readonly identity: string;
  readonly sentAt: number;
}

/** An outcome that Redis published. */
export interface OutcomeFact {
  readonly uri: string;
  readonly identity: string;
  readonly status: string;
  readonly code: string | undefined;
  readonly model: string;
  readonly answer: Answer | undefined;
  readonly atMs: number;
}

export interface Answer {
  readonly number: number;
  readonly version: number;
  /** 0 for the job's own model, else the place of a further one (models/inference.ts). */
  readonly place: number;
}

/** A captured request or record that was answered. */
export interface CaptureFact {
  /** The name of a further model; undefined for the job's own. */
  readonly named: string | undefined;
  readonly id: string;
  /** As its object says it. */
  readonly model: string;
  readonly number: number | undefined;
  readonly answer: Answer;
}

/** A job over files that somebody asked for. */
export interface FilesFact {
  readonly id: string;
  readonly expected: readonly { readonly file: string; readonly numbers: readonly number[] }[];
  readonly atMs: number;
  /** Its results, read at the end; undefined: it wrote none. */
  lines?:
    | readonly {
        readonly file: string;
        readonly row: number;
        readonly model: string | undefined;
        readonly answer: Answer | undefined;
        readonly error: string | undefined;
      }[]
    | undefined;
}

/** The answer to a client that asked for a uri. */
export interface ReadFact {
  readonly client: string;
  readonly how: 'query' | 'wait' | 'take' | 'dequeue' | 'final';
  readonly uri: string;
  /** That it asked for. */
  readonly asked: string | undefined;
  readonly calledMs: number;
  readonly endedMs: number;
  readonly got:
    | {
        readonly kind: 'result';
        readonly identity: string;
        readonly model: string;
        readonly answer: Answer | undefined;
      }
    | { readonly kind: 'error'; readonly code: string; readonly isOfRecord: boolean }
    | { readonly kind: 'nothing' };
}

export interface PredictionFact {
  readonly client: string;
  readonly number: number;
  readonly calledMs: number;
  readonly endedMs: number;
  /** The further model that it named. Undefined: none. */
  readonly named: string | undefined;
  /** The version that the answer names. */
  readonly model: string;
  readonly answer: Answer | undefined;
}

/** A handler answered, and its environment is about to be stopped. */
export interface AnswerFact {
  readonly environment: string;
  readonly startedMs: number;
  readonly atMs: number;
  /** Calls without an answer, and bytes under way. */
  readonly left: readonly string[];
  readonly leftMs: number;
}

export interface CancelFact {
  readonly uri: string;
  /** `true`, `false`, or an error. */
  readonly answer: string;
  readonly calledMs: number;
  readonly endedMs: number;
}

/** A time in which something was wrong outside of the programs. */
export interface TroubleFact {
  readonly what: 'redis' | 's3' | 'sqs' | 'network' | 'clock';
  readonly fromMs: number;
  readonly toMs: number;
}

/** Limits and times that the invariants need. */
export interface Facts {
  readonly refreshMs: number;
  readonly timeoutMs: number;
  readonly maxReceiveCount: number;
  /** False: the queue gives records up before the function does. */
  readonly isPatient: boolean;
  readonly endMs: number;
}

/** A line of the log. `about` says which uri it concerns; undefined: all of them. */
export interface Line {
  readonly atMs: number;
  readonly from: string;
  readonly to: string;
  readonly text: string;
  readonly about: readonly string[] | undefined;
}

export class History {
  readonly lines: Line[] = [];
  readonly enqueues: EnqueueFact[] = [];
  readonly messages: MessageFact[] = [];
  readonly outcomes: OutcomeFact[] = [];
  readonly notices: NoticeFact[] = [];
  /** All that was captured, read at the end. */
  readonly captures: CaptureFact[] = [];
  readonly files: FilesFact[] = [];
  readonly reads: ReadFact[] = [];
  readonly predictions: PredictionFact[] = [];
  readonly canaries = new CanaryFacts();
  readonly named = new NamedFacts();
  readonly answers: AnswerFact[] = [];
  readonly cancels: CancelFact[] = [];
  readonly troubles: TroubleFact[] = [];
  /** Versions that were open together in a process, at most. */
  readonly mostOpen = new Map<string, number>();
  readonly kills: { readonly process: string; readonly how: string; readonly atMs: number }[] = [];
  readonly uncaught: { readonly process: string; readonly text: string; readonly atMs: number }[] = [];
  /** Uris of what is still in the queue at the end. */
  readonly stuck: string[] = [];
  readonly facts: Facts;

  constructor(facts: Facts) {
    this.facts = facts;
  }

  /** The numbers of all records, once for each run. */
  readonly ran: number[] = [];

  versionOf(id: string): number | undefined {
    return this.canaries.versions.get(id)?.number;
  }

  enqueueOf(identity: string): EnqueueFact | undefined {
    return this.enqueues.find((one) => one.identity === identity);
  }
}
