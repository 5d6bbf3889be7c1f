/** /v1/files and /v1/batches, in the form of OpenAI's API. What answers them is loaded at the first request. */
import { batchOperations, fileOperations } from '../../openapi/batches.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { type Handle, withErrors } from '../handle.ts';
import type { OpenAIDeps } from './endpoint.ts';
import { openAIError } from './error.ts';

export const handle: Handle<OpenAIDeps> = withErrors(openAIError, async (request, deps) => {
  const { answerOpenAI } = await import('./endpoint.ts');
  return answerOpenAI(request, deps);
});

export const declaration: Declaration = {
  routes: [
    'POST /v1/files',
    'GET /v1/files',
    'GET /v1/files/{id}',
    'DELETE /v1/files/{id}',
    'GET /v1/files/{id}/content',
    'POST /v1/batches',
    'GET /v1/batches',
    'GET /v1/batches/{id}',
    'POST /v1/batches/{id}/cancel',
  ],
  function: 'submit',
  needs: 'jobs',
  errorForm: 'OpenAIError',
  operations: () => [...fileOperations(), ...batchOperations()],
};
