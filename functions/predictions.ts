/**
 * Records of the queue and their results: the routes of lib/http/routes/lists/predictions.ts. One bundle is deployed twice: POST
 * /predictions outside the VPC (SQS is reachable without a NAT), the rest inside (with the results). Each opens only what its side has.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredictions } from '../lib/compose/predictions.ts';
import { logError } from '../lib/contract/log.ts';
import { type DepsOf, findHandle } from '../lib/http/handle.ts';
import { readRequest } from '../lib/http/request.ts';
import { respond } from '../lib/http/response.ts';
import { HANDLES } from '../lib/http/routes/lists/predictions.ts';
import type { InvocationClock } from '../lib/pipeline/deadline.ts';

export type PredictionsDeps = DepsOf<typeof HANDLES>;

const handleOf = findHandle<PredictionsDeps>(HANDLES);

export const predictions =
  (deps: PredictionsDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) => {
    const handle = handleOf(event);
    return respond(() => handle(readRequest(event), deps, clock), logError, handle.errorBody);
  };

export const handler = lambdaHandler('http', predictions, composePredictions);
