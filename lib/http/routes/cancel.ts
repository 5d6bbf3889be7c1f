/** POST /cancel?uri=... The uri is in the query, as that of GET /status. */
import { ServingError } from '../../contract/errors.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { object } from '../../openapi/json-schema.ts';
import { answer } from '../../openapi/operation.ts';
import { URI_QUERY } from '../../openapi/records.ts';
import { URI } from '../../openapi/schemas.ts';
import type { Handle } from '../handle.ts';
import { json } from '../response.ts';

export interface CancelDeps {
  readonly states: () => {
    /** @returns false when it is too late: every enqueue that is known has its outcome */
    cancel(uri: string): Promise<boolean>;
  };
}

/** @throws bad_request for a bad uri, conflict when it is too late to cancel */
export const handle: Handle<CancelDeps> = async (request, { states }) => {
  const uri = request.uri();
  if (await states().cancel(uri)) return json(200, { uri, status: 'cancelled' });
  throw new ServingError('conflict', 'too late to cancel: the record has, or had, its result', { uri });
};

export const declaration: Declaration = {
  routes: ['POST /cancel'],
  function: 'predictions',
  operations: () => [
    {
      id: 'cancel',
      tag: 'queue',
      summary: 'Cancels a record that has no result',
      parameters: [{ ...URI_QUERY, required: true }],
      answers: {
        200: answer('It is cancelled.', object({ uri: URI, status: { type: 'string', const: 'cancelled' } })),
      },
      errors: ['bad_request', 'conflict', 'results_unavailable'],
    },
  ],
};
