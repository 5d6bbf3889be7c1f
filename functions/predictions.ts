/**
 * The routes of records in the queue, and of their results (lib/http/routes). One bundle is deployed twice: POST /predictions outside the
 * VPC (SQS is reachable without a NAT), the rest inside (with the results). Each opens only what its side has.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredictions } from '../lib/compose/predictions.ts';
import { answerRoutes, type DepsOf } from '../lib/http/handle.ts';
import { HANDLES } from '../lib/http/routes/lists/predictions.ts';
import type { InvocationClock } from '../lib/pipeline/deadline.ts';

export type PredictionsDeps = DepsOf<typeof HANDLES>;

const answer = answerRoutes<PredictionsDeps>(HANDLES);

export const predictions =
  (deps: PredictionsDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) =>
    answer(deps, event, clock);

export const handler = lambdaHandler('http', predictions, composePredictions);
