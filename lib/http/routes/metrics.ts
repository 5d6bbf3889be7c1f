/** GET /metrics: the timers of all functions of the job, as JSON and, where a client asks for that by `Accept`, for Prometheus. */
import type { ServedVersions } from '../../contract/values.ts';
import type { ShownBudget } from '../../metrics/budget.ts';
import type { Family } from '../../metrics/exposition/families.ts';
import { formatFor } from '../../metrics/exposition/text.ts';
import { reports, type SharedTimers } from '../../metrics/timers.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { ref } from '../../openapi/inputs.ts';
import { list, TEXT } from '../../openapi/json-schema.ts';
import type { Observers } from '../../pipeline/observer.ts';
import type { Handle } from '../handle.ts';
import { json } from '../response.ts';

export interface MetricsDeps {
  readonly results: { timers(): Promise<SharedTimers> };
  /** The version of the model that should serve, and those on trial. @throws model_unavailable */
  readonly versions: () => Promise<ServedVersions>;
  readonly observers: Observers;
  readonly settings: { readonly jobName: string };
  /** Undefined: the job has no budget. @throws results_unavailable */
  readonly budget?: (() => Promise<ShownBudget>) | undefined;
  /** Facts that only the process of a single machine knows. Default: none. */
  readonly own?: () => readonly Family[];
}

export const handle: Handle<MetricsDeps> = async ({ headers }, deps) => {
  const { results, versions, observers, settings, budget, own = () => [] } = deps;
  const stop = observers.start('figures');
  const timers = await results.timers();
  stop();
  const format = formatFor(headers['accept']);
  if (!format) return json(200, reports(timers));
  const served = await versions().catch(() => undefined);
  const spent = await budget?.();
  const { metricsAnswer } = await import('../metrics.ts');
  return metricsAnswer({ job: settings.jobName, timers, served, spent, own: own() }, format);
};

export const declaration: Declaration = {
  routes: ['GET /metrics', 'HEAD /metrics'],
  function: 'status',
  operations: () => [
    {
      id: 'metrics',
      tag: 'service',
      summary: 'Timers of all functions of the job; for Prometheus by Accept',
      answers: {
        200: {
          description: 'The timers.',
          content: {
            'application/json': { schema: list(ref('Timer')) },
            'text/plain': { schema: TEXT },
            'application/openmetrics-text': { schema: TEXT },
          },
        },
      },
      errors: ['results_unavailable'],
    },
  ],
};
