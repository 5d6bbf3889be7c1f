/** Measures the queue's path: the same steps with timers around them, and a log line for each problem. */
import { isLate } from '../pipeline/decode.ts';
import type { RanRecords, Steps } from '../pipeline/serve.ts';
import { reportOutcomes } from './outcomes.ts';
import type { Reporter } from './reporter.ts';

export function measuredSteps(steps: Steps, reporter: Reporter): Steps {
  let stopPredict: (() => void) | undefined;
  return {
    decode(chunk, buffers) {
      stopPredict = reporter.start('zoo.serving.request.predict');
      return steps.decode(chunk, buffers);
    },
    async run(decoded, buffers) {
      const ran = await steps.run(decoded, buffers);
      // Messages for which no time was left did not run.
      if (decoded.records.length > 0 || !isLate(decoded)) stopPredict?.();
      return ran;
    },
    async save(ran: RanRecords) {
      const stopPut = reporter.start('zoo.serving.redis.put');
      const again = await steps.save(ran);
      if (!isLate(ran)) stopPut();
      reportOutcomes(ran);
      return again;
    },
  };
}
