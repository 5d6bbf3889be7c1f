/** A reporter whose measurements go nowhere. */
import { Reporter } from '../../lib/metrics/reporter.ts';

export function quietReporter(): Reporter {
  return new Reporter({
    deliver: async () => undefined,
    now: () => performance.now(),
    onError: () => undefined,
  });
}
