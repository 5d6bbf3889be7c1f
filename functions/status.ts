/**
 * GET / (welcome), GET /metrics (timers of all functions of the job, for Prometheus too) and GET /ready (200 when a
 * prediction can work). Readiness asks S3 which model was pushed and the store which ones answer, and loads no model.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeStatus } from '../lib/compose/status.ts';
import { ServingError } from '../lib/contract/errors.ts';
import { logError } from '../lib/contract/log.ts';
import { readyAnswer } from '../lib/http/readiness.ts';
import { readRequest } from '../lib/http/request.ts';
import { json, respond, text } from '../lib/http/response.ts';
import type { Family } from '../lib/metrics/exposition/families.ts';
import { formatFor } from '../lib/metrics/exposition/text.ts';
import type { ServingVersion } from '../lib/metrics/fields.ts';
import { reports, type SharedTimers } from '../lib/metrics/timers.ts';
import type { Observers } from '../lib/pipeline/observer.ts';

interface StatusDeps {
  readonly results: {
    /**
     * The reports of environments.
     * @throws results_unavailable
     */
    serving(): Promise<readonly ServingVersion[]>;
    timers(): Promise<SharedTimers>;
  };
  /** The version of the model that should serve. @throws model_unavailable */
  readonly modelVersion: () => Promise<string>;
  readonly observers: Observers;
  readonly jobName: string;
  /** Facts that only the process of a single machine knows. Default: none. */
  readonly own?: () => readonly Family[];
}

const WELCOME = 'welcome to analytics zoo web serving frontend';

export const status =
  ({ results, modelVersion, observers, jobName: job, own = () => [] }: StatusDeps) =>
  (event: APIGatewayProxyEventV2) =>
    respond(async () => {
      const { path, headers } = readRequest(event);
      if (path === '/') return text(200, WELCOME);
      if (path === '/metrics') {
        const stop = observers.start('figures');
        const timers = await results.timers();
        stop();
        const format = formatFor(headers['accept']);
        if (!format) return json(200, reports(timers));
        const version = await modelVersion().catch(() => undefined);
        const { metricsAnswer } = await import('../lib/http/metrics.ts');
        return metricsAnswer({ job, timers, version, own: own() }, format);
      }
      if (path !== '/ready') throw new ServingError('not_found', `no such path: ${path}`);
      return readyAnswer({ model: modelVersion(), serving: results.serving() }, logError);
    }, logError);

export const handler = lambdaHandler('http', status, composeStatus);
