/** Composes the observers of an environment: those that it asks for, as one. */
import { emf } from '../observe/emf.ts';
import { FAILURES } from '../observe/failures.ts';
import { DeliveredTimers } from '../observe/timers.ts';
import { together } from '../observe/together.ts';
import type { Observers } from '../pipeline/observer.ts';
import type { Handler } from '../trace/tracer.ts';
import { CLOCK } from './clock.ts';
import type { EventKind } from './events.ts';
import type { Scope } from './scope.ts';

/** Timers of all functions of an environment. Redis is loaded only when they are due. */
export function timers(scope: Scope): DeliveredTimers {
  return new DeliveredTimers({
    deliver: async (measured, model) => {
      const { results } = await import('./redis.ts');
      return scope.get(results).save([], model, measured);
    },
    now: CLOCK.now,
  });
}

export function observers(scope: Scope): Observers {
  const { environment, own } = scope;
  const { inLambda, hasMetrics, hasRedis } = environment;
  const all = [
    ...(own.observers ?? []),
    ...(hasRedis ? [scope.get(timers)] : []),
    ...(inLambda && hasMetrics ? [scope.get(metrics)] : []),
    FAILURES,
  ];
  return together(all, CLOCK.now);
}

/** A call of a deployed function. @param event of any kind */
export async function observeCall<R>(
  told: Observers,
  event: unknown,
  ids: Readonly<Record<string, unknown>>,
  work: () => Promise<R>,
): Promise<R> {
  const { Records } = (event ?? {}) as { readonly Records?: unknown };
  told.functionCalled?.({ ids, messages: Array.isArray(Records) ? Records.length : undefined });
  let answer: R | undefined;
  try {
    answer = await work();
    return answer;
  } finally {
    told.functionAnswered?.(answer);
  }
}

/** How long an answer waits at most for its observers, and what they leave for the answer itself. */
const FLUSH_MS = 2_000;
const ANSWER_MS = 100;

/** The same handler, whose observers deliver what is due before it answers. */
export function flushing<E, R>(scope: Scope, kind: EventKind, handler: Handler<E, R>): Handler<E, R> {
  const told = scope.get(observers);
  return async (event, context) => {
    try {
      return await handler(event, context);
    } finally {
      if (kind === 'sqs') told.eventReturned?.(undefined);
      const leftMs = () => Math.min(FLUSH_MS, context.getRemainingTimeInMillis() - ANSWER_MS);
      const work = told.flush?.({ leftMs });
      if (work) await work;
    }
  };
}

function metrics({ environment: { job, functionName, isProvisioned } }: Scope) {
  return emf({
    dimensions: { Job: job.jobName, Function: functionName },
    isProvisioned,
    now: Date.now,
    write: (line) => void process.stdout.write(line),
  });
}
