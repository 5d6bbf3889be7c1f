/** POST /predict, the Open Inference Protocol under /v2, and the other routes that answer at once with the open model (lib/http/routes). */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredict } from '../lib/compose/predict.ts';
import { answerRoutes, type DepsOf } from '../lib/http/handle.ts';
import { HANDLES } from '../lib/http/routes/lists/predict.ts';
import type { InvocationClock } from '../lib/pipeline/deadline.ts';

export type PredictDeps = DepsOf<typeof HANDLES>;

const answer = answerRoutes<PredictDeps>(HANDLES);

export const predict = (deps: PredictDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) =>
  answer(deps, event, clock, clock?.getRemainingTimeInMillis());

export const handler = lambdaHandler('http', predict, composePredict);
