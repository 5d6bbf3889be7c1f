/** The welcome, readiness and the timers of all functions of the job: the routes of lib/http/routes/lists/status.ts. It loads no model. */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeStatus } from '../lib/compose/status.ts';
import { logError } from '../lib/contract/log.ts';
import { type DepsOf, findHandle } from '../lib/http/handle.ts';
import { readRequest } from '../lib/http/request.ts';
import { respond } from '../lib/http/response.ts';
import { HANDLES } from '../lib/http/routes/lists/status.ts';

type StatusDeps = DepsOf<typeof HANDLES>;

const handleOf = findHandle<StatusDeps>(HANDLES);

export const status = (deps: StatusDeps) => (event: APIGatewayProxyEventV2) => {
  const handle = handleOf(event);
  return respond(() => handle(readRequest(event), deps, undefined), logError, handle.errorBody);
};

export const handler = lambdaHandler('http', status, composeStatus);
