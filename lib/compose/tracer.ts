/** Composes the tracing of requests and records, whose code is loaded only where spans have a receiver. */
import type { Environment } from '../config/environment.ts';
import { ServingError } from '../contract/errors.ts';
import { logWarning } from '../contract/log.ts';
import type { Handler, Tracer } from '../trace/tracer.ts';
import type { EventKind } from './events.ts';
import type { Scope } from './scope.ts';

/** @returns undefined when there is no receiver, or when what is said of it makes no sense, which is logged */
export async function openTracer({ traces, service, inLambda }: Environment): Promise<Tracer | undefined> {
  if (!traces) return undefined;
  const [{ Tracer }, { readTraceSettings }] = await Promise.all([
    import('../trace/tracer.ts'),
    import('../trace/settings.ts'),
  ]);
  try {
    return new Tracer({ ...readTraceSettings(traces, service), isFrozen: inLambda, warn: logWarning });
  } catch (error) {
    logWarning(`requests are not traced: ${ServingError.from(error).message}`);
    return undefined;
  }
}

/** The same handler where nothing is traced. */
export function traced<E, R>({ own }: Scope, kind: EventKind, handler: Handler<E, R>): Handler<E, R> {
  return own.tracer?.handler(kind, handler) ?? handler;
}
