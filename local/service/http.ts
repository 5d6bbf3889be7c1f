/** The HTTP API of a job on this machine: its functions behind the gateway, with the routes that only a single machine has. */
import type { Context } from 'aws-lambda';
import { predict } from '../../functions/predict.ts';
import { predictions } from '../../functions/predictions.ts';
import { status } from '../../functions/status.ts';
import { observeHandler } from '../../lib/compose/observe-handler.ts';
import { composePredict } from '../../lib/compose/predict.ts';
import { composePredictions } from '../../lib/compose/predictions.ts';
import { s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { composeStatus } from '../../lib/compose/status.ts';
import { predictTimeoutSeconds } from '../../lib/config/job.ts';
import { corsRules } from '../../lib/http/cors.ts';
import { DECLARATIONS } from '../../lib/http/routes/lists/declarations.ts';
import type { Declaration } from '../../lib/openapi/declaration.ts';
import type { LocalConsole } from '../console/open.ts';
import { serviceFamilies } from '../description/figures.ts';
import { descriptionRoutes } from '../description/routes.ts';
import { FLAGS_ADVICE } from '../gateway/caller.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import type { GrpcJob } from '../grpc/methods.ts';
import { securityOf } from '../machine/access.ts';
import type { ServiceParts } from '../worker/open.ts';
import type { ServiceStatistics } from '../worker/statistics.ts';
import { batchFileRoutes } from './batch-files.ts';
import { LOCAL_BUCKET, recordFigures } from './environment.ts';
import { jobRoutes } from './job-routes.ts';
import { largeResultsRoute, localLocation } from './large-results.ts';
import type { JobServices, Runs } from './runs.ts';
import { localUploadPlace, uploadsRoute } from './uploads.ts';

interface Opened {
  readonly runs: Runs;
  readonly statistics: ServiceStatistics;
  readonly parts: ServiceParts;
  readonly page: LocalConsole;
  /** The routes that only a single machine has. */
  readonly declarations: readonly Declaration[];
}

/** In place of presigned addresses. */
const AT_THIS_API = { locate: localLocation, placeUpload: localUploadPlace };

export async function gatewayOptions(
  scope: Scope,
  services: JobServices,
  { runs, statistics, parts, page, declarations }: Opened,
): Promise<GatewayOptions> {
  const { port, log, access } = services;
  const { job, queueUrl } = scope.environment;
  const { inputAlreadyBatched } = job;
  const live = { load: runs.load, queue: () => recordFigures(services.aws, queueUrl, job) };
  const deps = await composePredict(scope, runs.model);
  const { version } = runs;
  const reading = { ...(await composePredictions(scope)), ...AT_THIS_API };
  const timeoutMs = predictTimeoutSeconds(job) * 1000;
  const limits = { timeoutMs, refuses: () => runs.refuses(), onLeave: () => runs.onLeave() };
  const trace: GrpcJob['trace'] = ({ headers, routeKey, clock }, work) => {
    const event = { headers, routeKey, requestContext: { http: { method: 'POST' } } };
    return observeHandler(scope, 'http', work)(event, clock as Context);
  };
  services.offer?.({ deps, ...limits, trace, stopMs: runs.stopMs });
  const handlers = {
    predict: observeHandler(scope, 'http', predict({ ...deps, encode: parts.encode })),
    predictions: observeHandler(scope, 'http', predictions(reading)),
    status: observeHandler(
      scope,
      'http',
      status({
        ...(await composeStatus(scope)),
        ...(version ? { versions: async () => ({ version: await version() }) } : {}),
        own: () => serviceFamilies(statistics.counts, live),
      }),
      false,
    ),
  };
  const allowedHosts = [...access.allowedHosts, ...job.http.allowedHosts];
  return {
    advice: services.terminate && FLAGS_ADVICE,
    ...(runs.stopMs === undefined ? {} : { closeTimeoutMs: runs.stopMs }),
    port,
    portOption: '--port',
    observer: deps.observers,
    log,
    cors: corsRules(job.http.corsOrigins),
    ...access,
    allowedHosts,
    routes: jobRoutes(handlers, limits, [
      ...parts.routes,
      ...descriptionRoutes({
        job: job.jobName,
        model: deps.model,
        filter: deps.filter,
        inputAlreadyBatched,
        security: securityOf(access),
        declarations: [...DECLARATIONS, ...declarations],
      }),
      ...page.routes(allowedHosts, handlers.status),
      ...batchFileRoutes(scope),
      ...objectRoutes(scope),
    ]),
  };
}

/** Objects of S3 that clients of a deployment reach by presigned addresses. */
function objectRoutes(scope: Scope): GatewayRoute[] {
  const place = { bucket: LOCAL_BUCKET, job: scope.environment.job.jobName };
  const s3 = scope.get(s3Client);
  return [largeResultsRoute(s3, place), uploadsRoute(s3, place)];
}
