/** Captured records: requests and records of the queue with their answers, as lines of objects in S3 (lib/codecs/capture). */
import type { RunPlace } from './values.ts';
import type { Runtime } from './verification.ts';

/** The first line of an object: facts that all of its lines share. */
export interface CaptureHeader {
  /** The version of the form. */
  readonly capture: 1;
  readonly job: string;
  /** The name of the further model that answered; absent for the job's own. */
  readonly model?: string | undefined;
  /** The version of the model that answered. */
  readonly version: string;
  /** The settings of the job that decide answers. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly runtime: Runtime & { readonly threads: number };
  /** Requests and records of this environment that were drawn and not stored, since it started. */
  readonly lost: number;
}

/** The form of a request's records: as the model declares its inputs (`exact`), or without the batch dimension (`row`). */
export type CaptureForm = 'exact' | 'row';

/** Facts of a line besides its records. */
export interface CaptureFacts {
  /** In ms since 1970. */
  readonly at: number;
  readonly source: 'request' | 'queue';
  /** The uri of a record of the queue, or the id of a request: Lambda's, as in its log. */
  readonly id: string;
  readonly traceId?: string | undefined;
  readonly form?: CaptureForm | undefined;
  /** The code with which all of it failed. Messages may quote values, so they are left out. */
  readonly error?: string | undefined;
}

/** The facts of a captured record besides its values. */
export interface CapturedPlace {
  /** Inputs that were not captured: the record cannot be replayed then. */
  readonly left: readonly string[];
  readonly place: RunPlace | undefined;
}

/** `capture` in config.yaml. */
export interface CaptureSettings {
  readonly share: number;
  readonly include: readonly string[];
  readonly leaveOut: readonly string[];
  readonly failures: boolean;
}

/** In `include`: every text and picture. */
export const EVERY_NAME = '*';

/** Characters of a line; a longer one is not stored. */
export const MOST_LINE: number = 4 * 1024 * 1024;

export function isCapturing({ share }: Pick<CaptureSettings, 'share'>): boolean {
  return share > 0;
}
