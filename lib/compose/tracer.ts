/** Composes the tracing of requests and records, whose code is loaded only where spans have a receiver. */
import { enqueueOf, traceAttributes } from '../codecs/attributes.ts';
import type { Environment } from '../config/environment.ts';
import { logWarning, logWith } from '../contract/log.ts';
import { readTrace, traceHeaders } from '../contract/trace.ts';
import type { Handler, Tracer } from '../trace/tracer.ts';
import type { EventKind } from './events.ts';
import type { Scope } from './scope.ts';

/** @returns undefined when there is no receiver, or when what is said of it makes no sense, which is logged */
export async function openTracer({ traces, service, inLambda }: Environment): Promise<Tracer | undefined> {
  if (!traces) return undefined;
  const { Tracer } = await import('../trace/tracer.ts');
  try {
    const tools = { enqueueOf, traceAttributes, logWith, readTrace, traceHeaders };
    return new Tracer(traces, { service, isFrozen: inLambda, warn: logWarning, ...tools });
  } catch (error) {
    logWarning(`requests are not traced: ${(error as Error).message}`);
    return undefined;
  }
}

/** The same handler where nothing is traced. */
export function traced<E, R>({ own }: Scope, kind: EventKind, handler: Handler<E, R>): Handler<E, R> {
  return own.tracer?.handler(kind, handler) ?? handler;
}
