/**
 * In: what happened. Out: one line of JSON on stdout, which is what CloudWatch keeps, with the ids of the invocation it
 * happened in. Trap: an Error has no enumerable fields; JSON.stringify alone would log `{}`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { ServingError } from './errors.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Follows the awaits of an invocation, so that nobody passes its ids on. */
const invocation = new AsyncLocalStorage<Fields>();

/** Whatever is logged in the course of `work` carries `fields` too. */
export function logWith<T>(fields: Fields, work: () => T): T {
  return invocation.run(fields, work);
}

/** The whole error with its causes: this line is the only place where an internal error is told. */
export function logError(error: unknown, fields: Fields = {}): void {
  const known = ServingError.from(error);
  write('error', known.message, { code: known.code, uri: known.uri, stack: stackOf(known), ...fields });
}

function stackOf(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${stackOf(error.cause)}` : '';
  return `${error.stack ?? error.message}${cause}`;
}

function write(level: string, message: string, fields: Fields): void {
  process.stdout.write(`${JSON.stringify({ level, message, ...invocation.getStore(), ...fields })}\n`);
}
