/** Composes the observers of an environment: those that it asks for, as one. */

import type { Environment } from '../config/environment.ts';
import { isCapturing } from '../contract/capture.ts';
import { asError } from '../contract/errors.ts';
import { logWarning } from '../contract/log.ts';
import { emf } from '../observe/emf.ts';
import { FAILURES } from '../observe/failures.ts';
import { Inferences } from '../observe/inferences.ts';
import { DeliveredTimers } from '../observe/timers.ts';
import { together } from '../observe/together.ts';
import { TrialWatch } from '../observe/trial.ts';
import type { Fact, Observer, Observers } from '../pipeline/observer.ts';
import { captureSlot } from './capture-slot.ts';
import { CLOCK } from './clock.ts';
import type { Scope } from './scope.ts';
import type { Tracing } from './traced.ts';

/** Timers of all functions of an environment. The store is loaded only when they are due. */
export function timers(scope: Scope): DeliveredTimers {
  return new DeliveredTimers({
    deliver: async (measured, model) => {
      const { results } = await import('./results.ts');
      return scope.get(results).save([], model, measured);
    },
    now: CLOCK.now,
  });
}

/** Counts what decides about a canary. The store is loaded only when there is one. */
export function trialWatch(scope: Scope): TrialWatch {
  return new TrialWatch({
    deliver: async (trial, counts) => {
      const { trialCounts } = await import('./results.ts');
      await scope.get(trialCounts).add(trial, counts);
    },
    now: CLOCK.now,
  });
}

/** Counts inferences for GET /v2/models/<name>/stats. */
export function inferences(): Inferences {
  return new Inferences(Date.now);
}

export function observers(scope: Scope): Observers {
  const { job, hasResults } = scope.environment;
  const all = [
    ...commonObservers(scope),
    ...(hasResults ? [scope.get(trialWatch)] : []),
    scope.get(inferences),
    ...(isCapturing(job.capture) ? [scope.get(captureSlot)] : []),
  ];
  return together(all, CLOCK.now);
}

/** Those of a further model: its inferences and captures are not those of the job's own model. */
export function namedObservers(
  scope: Scope,
  own: readonly Observer[],
  further?: () => Fact<'recordsRan'>['further'],
): Observers {
  const told = together([...commonObservers(scope), ...own], CLOCK.now);
  if (!told.recordsRan || !further) return told;
  return { ...told, recordsRan: (ran) => told.recordsRan?.({ ...ran, further: further() }) };
}

function commonObservers(scope: Scope): Observer[] {
  const { environment, own } = scope;
  const { inLambda, hasMetrics, hasResults } = environment;
  return [
    ...(own.observers ?? []),
    ...(own.tracing ? [own.tracing.spans] : []),
    ...(hasResults ? [scope.get(timers)] : []),
    ...(inLambda && hasMetrics ? [scope.get(metrics)] : []),
    // After the metrics, which begin with a call.
    ...(own.budget ? [scope.get(own.budget.spending)] : []),
    FAILURES,
  ];
}

/** @returns undefined without a receiver. Invalid settings of a receiver are logged, and give undefined too */
export async function openTracing({ traces, service, inLambda }: Environment): Promise<Tracing | undefined> {
  if (!traces) return undefined;
  const [{ Spans }, { Tracing }] = await Promise.all([import('../observe/spans.ts'), import('./traced.ts')]);
  try {
    return new Tracing(new Spans(traces, { service, isFrozen: inLambda, now: CLOCK.now, warn: logWarning }));
  } catch (error) {
    logWarning(`requests are not traced: ${asError(error).message}`);
    return undefined;
  }
}

function metrics({ environment: { job, functionName, isProvisioned } }: Scope) {
  return emf({
    dimensions: { Job: job.jobName, Function: functionName },
    isProvisioned,
    now: Date.now,
    write: (line) => void process.stdout.write(line),
  });
}
