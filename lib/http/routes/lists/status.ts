/** Written by `npm run docs` from the files of lib/http that declare a route. */
import { handle as metrics } from '../metrics.ts';
import { handle as ready } from '../ready.ts';
import { handle as welcome } from '../welcome.ts';

export const HANDLES = {
  'GET /': welcome,
  'GET /ready': ready,
  'GET /metrics': metrics,
};
