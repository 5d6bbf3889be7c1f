/**
 * Writes one line of JSON per event to stdout, which CloudWatch stores, with the ids of the invocation. Fields are
 * named as in AWS Powertools, so that queries written for it work here too.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { ServingError } from './errors.ts';

type Fields = Readonly<Record<string, unknown>>;

export type Level = 'debug' | 'info' | 'warn' | 'error';

/** The fields of every line of this process. */
let ofProcess: Fields = {};

/** Adds `fields` to every later line of this process. */
export function logAlways(fields: Fields): void {
  ofProcess = fields;
}

/** Follows the awaits of an invocation, so that its ids need not be passed on. */
const invocation = new AsyncLocalStorage<Fields>();

/** Adds `fields` to every line that `work` logs. */
export function logWith<T>(fields: Fields, work: () => T): T {
  return invocation.run({ ...invocation.getStore(), ...fields }, work);
}

/** Versions of the model that failed with an error. */
const versions = new WeakMap<Error, string>();

/** @returns the same error, or a ServingError in its place; lines about it name the version of the model */
export function failedIn(version: string, error: unknown): ServingError {
  const known = ServingError.from(error);
  versions.set(known, version);
  return known;
}

/**
 * Logs the full error with its causes (an Error has no enumerable fields). An internal error is reported only here.
 */
export function logError(error: unknown, fields: Fields = {}): void {
  const known = ServingError.from(error);
  const { code, uri } = known;
  const stack = stackOf(known);
  logLine('error', known.message, { code, uri, model_version: versionOf(known), stack, ...fields });
}

export function logWarning(message: string, fields: Fields = {}): void {
  logLine('warn', message, fields);
}

/** An error that was put into other words has the first one as its cause. */
function versionOf(error: Error): string | undefined {
  return versions.get(error) ?? (error.cause instanceof Error ? versions.get(error.cause) : undefined);
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}

export function logLine(level: Level, message: string, fields: Fields): void {
  const timestamp = new Date().toISOString();
  const line = { level, message, timestamp, ...ofProcess, ...invocation.getStore(), ...fields };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
