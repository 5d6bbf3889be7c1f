/**
 * POST /predict: {"instances":[{name: value}, ...]}, or a table as text/csv, becomes {"predictions":["{value=...}", ...]} in the same order;
 * values without names and files become plain JSON. One bad instance fails its request. It also serves /v2 and what lib/http holds besides.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredict } from '../lib/compose/predict.ts';
import { logError } from '../lib/contract/log.ts';
import { type AcceptDeps, acceptRecords, prefersAsync } from '../lib/http/accept.ts';
import { readInstances } from '../lib/http/instances.ts';
import { answerOther, errorForm } from '../lib/http/other-paths.ts';
import { predictionsAnswer } from '../lib/http/predictions.ts';
import { readRequest } from '../lib/http/request.ts';
import { type HttpResponse, jsonText, respondWithin } from '../lib/http/response.ts';
import type { WorkerDeps } from '../lib/http/worker/endpoint.ts';
import type { Filter } from '../lib/pipeline/answer/postprocess.ts';
import { type InvocationClock, requestPolicy } from '../lib/pipeline/deadline.ts';
import { serveRequest } from '../lib/pipeline/serve.ts';

export interface PredictDeps extends WorkerDeps {
  /** Handles `Prefer: respond-async`; without it the preference is ignored, as RFC 7240 allows. */
  readonly accept?: AcceptDeps | undefined;
  readonly filter: Filter | undefined;
}

export const predict = (deps: PredictDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) =>
  respondWithin(
    clock?.getRemainingTimeInMillis(),
    async (): Promise<HttpResponse> => {
      const request = readRequest(event);
      // Values that are already available are not awaited: each await costs a request to POST /predict a microsecond with its promises.
      const other = request.path === '/predict' ? undefined : await answerOther(request, deps, clock);
      if (other) return other;
      const stop = deps.observers.start('request');
      if (deps.limiter) await deps.limiter.acquire(clock?.caller);
      if (deps.accept && prefersAsync(request)) return acceptRecords(request, deps.accept);
      const read = readInstances(request);
      const { instances, inPlace, headers, isPlain } = read instanceof Promise ? await read : read;
      deps.observers.rowsRead?.(instances.length);
      const run = deps.observers.start('run');
      const policy = requestPolicy(clock);
      const { outcomes, version } = await deps.model.use(async (runner) => ({
        outcomes: await serveRequest(instances, runner, policy, deps.observers).catch(inPlace),
        version: runner.version,
      }));
      run();
      const answer = isPlain
        ? (await import('../lib/http/plain.ts')).plainAnswer(outcomes, deps.filter, version)
        : predictionsAnswer(outcomes, deps.filter);
      stop();
      return jsonText(200, answer, { 'model-version': version, ...headers });
    },
    logError,
    errorForm(event.rawPath),
  );

export const handler = lambdaHandler('http', predict, composePredict);
