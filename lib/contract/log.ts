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

/**
 * Logs the full error with its causes (an Error has no enumerable fields). An internal error is reported only here.
 */
export function logError(error: unknown, fields: Fields = {}): void {
  const known = ServingError.from(error);
  logLine('error', known.message, { code: known.code, uri: known.uri, stack: stackOf(known), ...fields });
}

export function logWarning(message: string, fields: Fields = {}): void {
  logLine('warn', message, fields);
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
