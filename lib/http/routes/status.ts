/** GET /status?uri=... The uri is in the query, because a path would lose its slashes and question marks. */
import type { EnqueueQuery } from '../../contract/enqueue.ts';
import type { RecordStatus } from '../../contract/result.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { object } from '../../openapi/json-schema.ts';
import { answer } from '../../openapi/operation.ts';
import { IDENTITY_QUERY, URI_QUERY } from '../../openapi/records.ts';
import { IDENTITY, URI } from '../../openapi/schemas.ts';
import type { Handle } from '../handle.ts';
import { json } from '../response.ts';

export interface StatusDeps {
  readonly states: () => { status(uri: string, query: EnqueueQuery): Promise<RecordStatus> };
}

/** @throws bad_request for a bad uri */
export const handle: Handle<StatusDeps> = async (request, { states }) => {
  const uri = request.uri();
  const identity = request.identity();
  return json(200, { uri, identity, status: await states().status(uri, { identity }) });
};

export const declaration: Declaration = {
  routes: ['GET /status'],
  function: 'predictions',
  operations: () => [
    {
      id: 'getStatus',
      tag: 'queue',
      summary: 'The state of a record',
      parameters: [{ ...URI_QUERY, required: true }, IDENTITY_QUERY],
      answers: {
        200: answer(
          'Its state.',
          object(
            {
              uri: URI,
              identity: IDENTITY,
              status: {
                type: 'string',
                enum: ['queued', 'running', 'succeeded', 'failed', 'expired', 'cancelled', 'unknown'],
              },
            },
            ['identity'],
          ),
        ),
      },
      errors: ['bad_request', 'results_unavailable'],
    },
  ],
};
