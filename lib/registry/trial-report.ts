/** `trial.json` beside a model's pointer: what was found of the versions on trial, as of the last look. */

import type { Unknown } from '../contract/verification.ts';
import { getText, putText, type S3Client } from '../s3/objects.ts';
import type { ModelLocation } from './download.ts';

export interface CanaryReport {
  readonly version: string;
  /** When its trial began, ISO 8601. */
  readonly since: string;
  /** Golden requests: how many were asked, or that the model is being tried. */
  readonly golden: 'passed' | 'none' | 'asking';
  /** How often the model was tried. */
  readonly attempts: number;
  readonly verdict: 'not enough' | 'no worse' | 'roll back';
  readonly reason: string;
  readonly looks: number;
  /** Openings in environments without an end. */
  readonly unended: number;
}

export interface ShadowReport {
  readonly version: string;
  readonly since: string;
  /** Captures that were written before have been replayed, in ms since 1970. */
  readonly until: number;
  /** The time of captures that is asked next, in ms. */
  readonly windowMs: number;
  /** Records that were compared, those with another first class, and those beyond the tolerance. */
  readonly compared: number;
  readonly flips: number;
  readonly differ: number;
  /** Requests and records that failed, or fail now, and end in another way. */
  readonly otherEnds: number;
  readonly notReplayable: number;
  /** Why the last replay could not be made. */
  readonly problem?: string | undefined;
}

/** The room that a canary finds where it would be opened. */
export interface Room {
  readonly memoryMB: number;
  readonly diskMB: number;
  /** True: the version that serves is in that memory, too. */
  readonly isShared: boolean;
}

export interface TrialReport {
  /** When it was looked at, ISO 8601. Where nothing is on trial, about once an hour. */
  readonly at: string;
  readonly room: Room;
  /** True if anything is captured that a shadow could answer. */
  readonly isCapturing: boolean;
  /** In the report of the job's own model: versions of further models are looked at, too. Absent in one of an earlier release. */
  readonly hasFurther?: true | undefined;
  readonly canary?: CanaryReport | undefined;
  readonly shadow?: ShadowReport | undefined;
}

/** Undefined where there is none that can be read. @throws S3's error */
export async function readTrialReport(
  s3: S3Client,
  location: ModelLocation,
): Promise<TrialReport | undefined> {
  const text = await getText(s3, addressOf(location));
  try {
    const report: unknown = JSON.parse(text ?? 'null');
    return isReport(report) ? report : undefined;
  } catch {
    return undefined;
  }
}

function isReport(value: unknown): value is TrialReport {
  const { at, room }: Unknown<TrialReport> = Object(value);
  return typeof at === 'string' && typeof room === 'object' && room !== null;
}

export async function writeTrialReport(s3: S3Client, location: ModelLocation, report: TrialReport) {
  await putText(s3, addressOf(location), `${JSON.stringify(report, undefined, 2)}\n`);
}

function addressOf({ bucket, prefix }: ModelLocation) {
  return { bucket, key: `${prefix}trial.json` };
}
