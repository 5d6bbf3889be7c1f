/**
 * One line of JSON on stdout for what happened, which is what CloudWatch keeps, with the ids of the invocation it
 * happened in. Fields have the names that AWS Powertools gives them, so that queries written for it find these lines too.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { ServingError } from './errors.ts';

type Fields = Readonly<Record<string, unknown>>;

/** What every line of this process carries. */
let ofProcess: Fields = {};

/** Whatever this process logs from now on carries `fields` too. */
export function logAlways(fields: Fields): void {
  ofProcess = fields;
}

/** Follows the awaits of an invocation, so that no function passes its ids on. */
const invocation = new AsyncLocalStorage<Fields>();

/** Whatever is logged in the course of `work` carries `fields` too. */
export function logWith<T>(fields: Fields, work: () => T): T {
  return invocation.run(fields, work);
}

/** The whole error with its causes (an Error has no enumerable fields): an internal error is reported here alone. */
export function logError(error: unknown, fields: Fields = {}): void {
  const known = ServingError.from(error);
  write('error', known.message, { code: known.code, uri: known.uri, stack: stackOf(known), ...fields });
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}

function write(level: string, message: string, fields: Fields): void {
  const timestamp = new Date().toISOString();
  const line = { level, message, timestamp, ...ofProcess, ...invocation.getStore(), ...fields };
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
