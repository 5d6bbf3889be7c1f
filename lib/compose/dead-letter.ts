/** Composes the dependencies of the dead-letter function. */
import { resultSink } from '../redis/result/sink.ts';
import { observers } from './observers.ts';
import { results } from './redis.ts';
import { archive } from './s3.ts';
import type { Scope } from './scope.ts';

export async function composeDeadLetter(scope: Scope) {
  const sink = resultSink(scope.get(results), { observer: scope.get(observers) });
  return {
    sink: scope.own.tracer?.sink(sink) ?? sink,
    archive: scope.get(archive),
    observers: scope.get(observers),
    attempts: scope.environment.job.queue.maxReceiveCount,
  };
}
