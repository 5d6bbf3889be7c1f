/**
 * In: a function's environment. Out: what measures its opening and each of its invocations.
 * Trap: an opening ends before the first invocation or in the midst of it; its time goes out with the first line that is
 * written after it.
 */
import type { Environment } from '../config/environment.ts';
import { measure, measureAnswer, measured, measureEvent } from '../metrics/emf.ts';

export interface InvocationMetrics {
  opening<T>(work: () => Promise<T>): Promise<T>;
  invocation<T>(event: unknown, ids: Readonly<Record<string, unknown>>, work: () => Promise<T>): Promise<T>;
}

type MeasuredEnvironment = Pick<Environment, 'job' | 'hasMetrics' | 'functionName' | 'isProvisioned'>;

/** @param write where lines go. Default stdout, which CloudWatch reads */
export function createInvocationMetrics(
  environment: MeasuredEnvironment,
  write = (line: string) => void process.stdout.write(line),
): InvocationMetrics {
  const { functionName, isProvisioned } = environment;
  const dimensions = { Job: environment.job.jobName, Function: functionName };
  let isFirst = true;
  let loadMs: number | undefined;
  return {
    async opening(work) {
      const begin = performance.now();
      const opened = await work();
      loadMs = performance.now() - begin;
      return opened;
    },
    invocation(event, ids, work) {
      if (!environment.hasMetrics) return work();
      return measured({ dimensions, fields: ids, now: Date.now, write }, async () => {
        measureEvent(event);
        if (isFirst && !isProvisioned) measure('ColdStarts', 1);
        isFirst = false;
        try {
          const answer = await work();
          measureAnswer(answer);
          return answer;
        } finally {
          if (loadMs !== undefined) measure('LoadTime', loadMs);
          loadMs = undefined;
        }
      });
    },
  };
}
