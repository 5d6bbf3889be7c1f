/** What the batch function needs: queue to results. */
import { parseFilter } from '../pipeline/postprocess.ts';
import { readyModel } from './model.ts';
import { reporter, results, runningNotices } from './redis.ts';
import { payloads } from './s3.ts';
import type { Scope } from './scope.ts';

export async function composeBatch(scope: Scope) {
  return {
    model: await scope.get(readyModel),
    results: scope.get(results),
    running: scope.get(runningNotices),
    payloads: scope.get(payloads),
    filter: parseFilter(scope.environment.job.postProcessing),
    reporter: scope.get(reporter),
  };
}
