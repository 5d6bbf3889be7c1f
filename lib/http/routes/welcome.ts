/** GET / answers with a text, as the original does. */
import type { Declaration } from '../../openapi/declaration.ts';
import { TEXT } from '../../openapi/json-schema.ts';
import { answer } from '../../openapi/operation.ts';
import type { Handle } from '../handle.ts';
import { text } from '../response.ts';

export const handle: Handle<unknown> = async () => text(200, 'welcome to analytics zoo web serving frontend');

export const declaration: Declaration = {
  routes: ['GET /', 'HEAD /'],
  function: 'status',
  operations: () => [
    {
      id: 'welcome',
      tag: 'service',
      summary: 'A welcome',
      answers: { 200: answer('A text.', TEXT, 'text/plain') },
      errors: [],
    },
  ],
};
