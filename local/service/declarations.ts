/** Declarations of the routes that only a single machine has. */
import type { Declaration } from '../../lib/openapi/declaration.ts';
import { DESCRIPTION } from '../description/routes.ts';
import { CONTROL, LATER, STATISTICS } from '../worker/routes.ts';
import { LARGE_RESULTS } from './large-results.ts';
import { UPLOADS } from './uploads.ts';

/** @param hasControl whether its commands can end it over HTTP */
export function localDeclarations(hasControl: boolean): readonly Declaration[] {
  return [LARGE_RESULTS, UPLOADS, STATISTICS, LATER, ...(hasControl ? [CONTROL] : []), DESCRIPTION];
}
