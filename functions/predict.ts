/** Answers directly with the open model, POST /predict and protocols: the routes of lib/http/routes/lists/predict.ts. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { CANARY_KEY } from '../lib/codecs/attributes.ts';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredict } from '../lib/compose/predict.ts';
import { logError } from '../lib/contract/log.ts';
import { type DepsOf, findHandle } from '../lib/http/handle.ts';
import { readRequest } from '../lib/http/request.ts';
import { respondWithin } from '../lib/http/response.ts';
import { HANDLES } from '../lib/http/routes/lists/predict.ts';
import { modelFor, modelNamed } from '../lib/http/side.ts';
import type { InvocationClock } from '../lib/pipeline/deadline.ts';

export type PredictDeps = DepsOf<typeof HANDLES>;

const handleOf = findHandle<PredictDeps>(HANDLES);

export const predict = (deps: PredictDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) => {
  const handle = handleOf(event);
  return respondWithin(
    clock?.getRemainingTimeInMillis(),
    // Values that are already available are not awaited: each await costs a request to POST /predict a microsecond with its promises.
    () => {
      const named = modelNamed(event.rawPath, event.queryStringParameters, deps.jobName);
      if (!named) return handle(readRequest(event), sideOf(event, deps, clock), clock);
      return import('../lib/http/named.ts')
        .then(({ withModel }) => withModel(deps, named))
        .then((chosen) => handle(readRequest(event), sideOf(event, chosen, clock), clock));
    },
    logError,
    handle.errorBody,
  );
};

/**
 * The same dependencies, or with the model of a canary that takes the request, or that the request names. What is asked about a
 * model is otherwise that of the serving one.
 */
function sideOf(
  { headers, rawPath, requestContext: { http, requestId } }: APIGatewayProxyEventV2,
  deps: PredictDeps,
  clock: InvocationClock | undefined,
): PredictDeps {
  if (!deps.model.canary && headers[CANARY_KEY] === undefined) return deps;
  const version = /\/versions\/([^/:]+)/.exec(rawPath)?.[1];
  const isRun = http.method === 'POST' && !rawPath.startsWith('/v2/repository');
  if (!isRun && version === undefined) return deps;
  const asked = { headers, version, requestId: () => clock?.awsRequestId ?? requestId };
  const model = modelFor(deps.model, asked);
  return model === deps.model ? deps : { ...deps, model };
}

export const handler = lambdaHandler('http', predict, composePredict);
