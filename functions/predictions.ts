/**
 * POST /predictions answers 202 with uri and Location. GET (also waiting: `Prefer: wait=10`) and DELETE
 * /predictions/{uri} read and take a result; DELETE /predictions takes a page of results; GET /status?uri=... and
 * POST /cancel?uri=... preserve slashes and question marks in the uri. One bundle is deployed twice: POST
 * /predictions outside the VPC (SQS is reachable without a NAT), the rest inside (with the results). Each opens only
 * what its side has.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composePredictions } from '../lib/compose/predictions.ts';
import { logError } from '../lib/contract/log.ts';
import { type AcceptDeps, acceptRecords } from '../lib/http/accept.ts';
import { readRequest } from '../lib/http/request.ts';
import { respond } from '../lib/http/response.ts';
import { answerResults, type ResultsDeps } from '../lib/http/results.ts';
import { answerState, isStatePath, type States } from '../lib/http/states.ts';
import type { InvocationClock } from '../lib/pipeline/deadline.ts';

export interface PredictionsDeps extends AcceptDeps, ResultsDeps {
  readonly states: () => States;
}

export const predictions =
  (deps: PredictionsDeps) => (event: APIGatewayProxyEventV2, clock?: InvocationClock) =>
    respond(async () => {
      const request = readRequest(event);
      if (isStatePath(request.path)) return answerState(request, deps.states());
      return request.method === 'POST'
        ? acceptRecords(request, deps)
        : answerResults(request, deps, clock?.caller);
    }, logError);

export const handler = lambdaHandler('http', predictions, composePredictions);
