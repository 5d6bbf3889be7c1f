/** Composes the dependencies of the dead-letter function. */
import { resultSink } from '../results/sink.ts';
import { announcement } from './announce.ts';
import { observers } from './observers.ts';
import { results } from './results.ts';
import { archive } from './s3.ts';
import type { Scope } from './scope.ts';

export async function composeDeadLetter(scope: Scope) {
  const observer = scope.get(observers);
  return {
    sink: resultSink(scope.get(results), { observer, announce: await announcement(scope) }),
    archive: scope.get(archive),
    observers: observer,
    attempts: scope.environment.job.queue.maxReceiveCount,
  };
}
