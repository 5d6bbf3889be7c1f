/** GET /ping: whether the model is open, as SageMaker asks it of a container. */
import type { Model } from '../../contract/values.ts';
import type { Declaration } from '../../openapi/declaration.ts';
import { TEXT } from '../../openapi/json-schema.ts';
import { answer } from '../../openapi/operation.ts';
import type { Handle } from '../handle.ts';
import { text } from '../response.ts';

export const handle: Handle<{ readonly model: Model }> = (_request, { model }) =>
  model.use(async () => text(200, ''));

export const declaration: Declaration = {
  routes: ['GET /ping'],
  function: 'predict',
  operations: () => [
    {
      id: 'ping',
      tag: 'service',
      summary: 'Whether the model is open, as SageMaker asks it',
      answers: { 200: answer('Nothing.', TEXT, 'text/plain') },
      errors: ['model_unavailable', 'timeout'],
    },
  ],
};
