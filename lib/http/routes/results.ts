/** GET (also waiting: `Prefer: wait=10`) and DELETE /predictions/{uri} read and take a result; DELETE /predictions takes a page of them. */
import type { Declaration, DeclaredOperation } from '../../openapi/declaration.ts';
import { ref } from '../../openapi/inputs.ts';
import { TEXT } from '../../openapi/json-schema.ts';
import { answer, parameter } from '../../openapi/operation.ts';
import { IDENTITY_QUERY, URI_QUERY } from '../../openapi/records.ts';
import { URI } from '../../openapi/schemas.ts';
import type { Handle } from '../handle.ts';
import { answerResults, type ResultsDeps } from '../results.ts';

export const handle: Handle<ResultsDeps> = (request, deps, clock) =>
  answerResults(request, deps, clock?.caller);

export const declaration: Declaration = {
  // Greedy: API Gateway decodes the path before it looks for a route, and a uri may contain a slash.
  routes: [
    'GET /predictions',
    'HEAD /predictions',
    'DELETE /predictions',
    'GET /predictions/{uri+}',
    'HEAD /predictions/{uri+}',
    'DELETE /predictions/{uri+}',
  ],
  function: 'predictions',
  operations: () => {
    const wait = parameter('Prefer', 'header', TEXT, '`wait=10` waits up to so many seconds, at most 20.');
    const fetched = parameter(
      'fetched',
      'query',
      { type: 'string', format: 'uuid', pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' },
      'The id of a large result that was fetched and may be deleted.',
    );
    const uri = parameter(
      'uri',
      'path',
      { ...URI, pattern: '^[A-Za-z0-9_-]+$' },
      'Any other uri goes into the query.',
    );
    const seeOther = {
      ...answer('A result over 1 MiB: fetch `Location`, without credentials.', ref('Succeeded')),
      headers: { Location: { schema: TEXT } },
    };
    const read = {
      tag: 'queue',
      answers: { 200: answer('The result.', ref('Result')), 303: seeOther },
      errors: ['bad_request', 'not_found', 'too_large', 'results_unavailable'],
    } satisfies Partial<DeclaredOperation>;
    return [
      {
        ...read,
        id: 'getResultByQuery',
        summary: 'The result of a record, whatever its uri',
        parameters: [{ ...URI_QUERY, required: true }, IDENTITY_QUERY, wait],
      },
      {
        ...read,
        method: 'delete',
        id: 'takeResults',
        summary: 'Takes up to 100 results, or that of one uri',
        parameters: [URI_QUERY, IDENTITY_QUERY, fetched],
        answers: {
          200: answer('What was deleted.', { anyOf: [ref('Page'), ref('Result')] }),
          303: seeOther,
        },
      },
      {
        ...read,
        path: '/predictions/{uri}',
        id: 'getResult',
        summary: 'The result of a record',
        parameters: [uri, IDENTITY_QUERY, wait],
      },
      {
        ...read,
        method: 'delete',
        path: '/predictions/{uri}',
        id: 'takeResult',
        summary: 'The result of a record, and deletes it',
        parameters: [uri, IDENTITY_QUERY, fetched],
      },
    ];
  },
};
