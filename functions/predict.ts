/** What answers at once with the open model, POST /predict and protocols: the routes of lib/http/routes/lists/predict.ts. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredict } from '../lib/compose/predict.ts';
import { logError } from '../lib/contract/log.ts';
import { type DepsOf, findHandle } from '../lib/http/handle.ts';
import { readRequest } from '../lib/http/request.ts';
import { respondWithin } from '../lib/http/response.ts';
import { HANDLES } from '../lib/http/routes/lists/predict.ts';
import type { InvocationClock } from '../lib/pipeline/deadline.ts';

export type PredictDeps = DepsOf<typeof HANDLES>;

const handleOf = findHandle<PredictDeps>(HANDLES);

export const predict = (deps: PredictDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) => {
  const handle = handleOf(event);
  return respondWithin(
    clock?.getRemainingTimeInMillis(),
    // Nothing is awaited here that is at hand: each await costs a request to POST /predict a microsecond with its promises.
    () => handle(readRequest(event), deps, clock),
    logError,
    handle.errorBody,
  );
};

export const handler = lambdaHandler('http', predict, composePredict);
