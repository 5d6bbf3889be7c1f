/** Composes the dependencies of the batch function. */
import { parseFilter } from '../pipeline/postprocess.ts';
import { resultSink } from '../redis/result/sink.ts';
import { readyModel } from './model.ts';
import { results, runningReports } from './redis.ts';
import { reporter } from './reporter.ts';
import { payloads } from './s3.ts';
import type { Scope } from './scope.ts';

export async function composeBatch(scope: Scope) {
  const filter = parseFilter(scope.environment.job.postProcessing);
  const { timers } = scope.get(reporter);
  return {
    model: await scope.get(readyModel),
    sink: resultSink(scope.get(results), { filter, timers }),
    running: scope.get(runningReports),
    payloads: scope.get(payloads),
    reporter: scope.get(reporter),
  };
}
