/** The welcome, readiness and the timers of all functions of the job (lib/http/routes). It loads no model. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeStatus } from '../lib/compose/status.ts';
import { answerRoutes, type DepsOf } from '../lib/http/handle.ts';
import { HANDLES } from '../lib/http/routes/lists/status.ts';

type StatusDeps = DepsOf<typeof HANDLES>;

const answer = answerRoutes<StatusDeps>(HANDLES);

export const status = (deps: StatusDeps) => (event: APIGatewayProxyEventV2) => answer(deps, event);

export const handler = lambdaHandler('http', status, composeStatus);
