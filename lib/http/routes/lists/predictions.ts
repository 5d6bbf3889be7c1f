/** Written by `npm run docs` from the files of lib/http that declare a route. */
import { handle as openai } from '../../openai/route.ts';
import { handle as cancel } from '../cancel.ts';
import { handle as enqueue } from '../enqueue.ts';
import { handle as results } from '../results.ts';
import { handle as status } from '../status.ts';
import { handle as uploads } from '../uploads.ts';

export const HANDLES = {
  'POST /predictions': enqueue,
  'GET /predictions': results,
  'DELETE /predictions': results,
  'GET /predictions/{uri+}': results,
  'DELETE /predictions/{uri+}': results,
  'GET /status': status,
  'POST /cancel': cancel,
  'POST /uploads': uploads,
  'POST /v1/files': openai,
  'GET /v1/files': openai,
  'GET /v1/files/{id}': openai,
  'DELETE /v1/files/{id}': openai,
  'GET /v1/files/{id}/content': openai,
  'POST /v1/batches': openai,
  'GET /v1/batches': openai,
  'GET /v1/batches/{id}': openai,
  'POST /v1/batches/{id}/cancel': openai,
};
