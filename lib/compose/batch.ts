/** Composes the dependencies of the batch function. */
import { leave } from '../contract/under-way.ts';
import type { Model } from '../contract/values.ts';
import { parseFilter } from '../pipeline/answer/postprocess.ts';
import type { Payloads } from '../pipeline/chunks.ts';
import type { RunCounts } from '../pipeline/counted-runs.ts';
import { type Archive, archiveDead } from '../pipeline/dead-letters.ts';
import type { EventDeps } from '../pipeline/event.ts';
import type { Observer } from '../pipeline/observer.ts';
import type { LargeStore } from '../results/large.ts';
import { RunningReports } from '../results/running.ts';
import { resultSink } from '../results/sink.ts';
import { announcement } from './announce.ts';
import { CLOCK } from './clock.ts';
import { observers, timers } from './observers.ts';
import { connection, results } from './results.ts';
import { archive, largeResults, payloads } from './s3.ts';
import type { Scope } from './scope.ts';
import { furtherModels, readyRunner } from './served.ts';
import { startCapture } from './start-capture.ts';
import { recordStates } from './states.ts';
import { openRunCounts, resultLimit } from './store.ts';

function runningReports(scope: Scope): RunningReports {
  const timeoutMs = scope.environment.job.function.timeoutSeconds * 1000;
  return new RunningReports(scope.get(recordStates), timeoutMs, CLOCK.now);
}

function runCounts(scope: Scope): RunCounts {
  const { job, keyspace } = scope.environment;
  const { maxReceiveCount: most, retentionSeconds } = job.queue;
  return openRunCounts(scope.get(connection), { job: keyspace, retentionSeconds, most });
}

export function endingsOf(
  runs: RunCounts,
  archiving: { readonly archive: Archive; readonly observers: Observer },
): NonNullable<EventDeps['endings']> {
  return (delivered) => ({
    runs,
    archive: (dead, isOver) => archiveDead(delivered, dead, archiving, isOver),
  });
}

/** Large results and records. With a budget they are counted, and so is what all of the job cost so far. */
function storesOf(scope: Scope): { readonly large: LargeStore; readonly payloads: Payloads } {
  const { budget } = scope.own;
  const stores = { large: scope.get(largeResults), payloads: scope.get(payloads) };
  if (!budget) return stores;
  budget.tellThrottle(scope);
  leave(scope.get(budget.budget).open());
  return budget.countedStores(scope, stores.large, stores.payloads);
}

/** @param served opens what runs the records: the job's model or worker, unless the single machine says otherwise */
export async function composeBatch(scope: Scope, served: (scope: Scope) => Promise<Model> = readyRunner) {
  const { jobName, postProcessing, queue } = scope.environment.job;
  startCapture(scope);
  const filter = parseFilter(postProcessing);
  const told = scope.get(observers);
  const store = scope.get(results);
  // Before the model, so that the store is connected while the model is downloaded. Its failure is that of the first command.
  leave(scope.get(connection).open());
  const stores = storesOf(scope);
  return {
    model: await scope.get(served),
    jobName,
    further: furtherModels(scope),
    sink: resultSink(store, {
      filter,
      timers: scope.get(timers).timers,
      observer: told,
      large: stores.large,
      limit: resultLimit,
      announce: await announcement(scope),
    }),
    running: scope.get(runningReports),
    payloads: stores.payloads,
    observers: told,
    endings: endingsOf(scope.get(runCounts), { archive: scope.get(archive), observers: told }),
    recordTtlSeconds: queue.recordTtlSeconds,
    now: Date.now,
  };
}
