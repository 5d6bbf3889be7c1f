/** Every route of the HTTP API. The single machine serves these, and the deployment creates them in API Gateway. */
import { type Route as Place, partsOf, type RoutedFunction } from '../openapi/declaration.ts';
import { DECLARATIONS } from './routes/lists/declarations.ts';

export type { RoutedFunction };

export interface Route extends Place {
  readonly function: RoutedFunction;
  /** True if it belongs to the worker service. */
  readonly isWorker: boolean;
  /** The setting that a deployment needs for it. */
  readonly needs?: 'jobs' | undefined;
}

export const ROUTES: readonly Route[] = DECLARATIONS.flatMap(
  ({ routes, function: name, errorForm, needs }) =>
    name === undefined
      ? []
      : routes.map((key) => ({
          ...partsOf(key),
          function: name,
          isWorker: errorForm === 'WorkerError',
          needs,
        })),
);
