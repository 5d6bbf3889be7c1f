/**
 * GET /metrics for Prometheus and OpenMetrics. What the store has is of all environments of the job; `own` is of the process that
 * answers, which only the single machine has: of deployed functions, each request may reach another one.
 */
import { SERVER_VERSION } from '../contract/names.ts';
import type { ServedVersions } from '../contract/values.ts';
import { budgetFamilies, type ShownBudget } from '../metrics/budget.ts';
import type { Family } from '../metrics/exposition/families.ts';
import { infoFamilies, timerFamilies } from '../metrics/exposition/shared.ts';
import { CONTENT_TYPES, exposition, type Format } from '../metrics/exposition/text.ts';
import type { SharedTimers } from '../metrics/timers.ts';
import type { HttpResponse } from './response.ts';

export interface ShownFigures {
  readonly job: string;
  readonly timers: SharedTimers;
  /** Undefined while none can serve. */
  readonly served: ServedVersions | undefined;
  /** Undefined: the job has no budget. */
  readonly spent?: ShownBudget | undefined;
  readonly own: readonly Family[];
}

export function metricsAnswer(
  { job, timers, served, spent, own }: ShownFigures,
  format: Format,
): HttpResponse {
  const shared = [
    ...infoFamilies(job, served, SERVER_VERSION),
    ...timerFamilies(timers.histograms),
    ...(spent ? budgetFamilies(spent) : []),
  ];
  return {
    statusCode: 200,
    headers: { 'content-type': CONTENT_TYPES[format], 'x-content-type-options': 'nosniff' },
    body: exposition([...shared, ...own], format),
  };
}
