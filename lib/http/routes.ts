/** Every route of the HTTP API. The single machine serves these, and the deployment creates them in API Gateway. */
import { type Route as Place, partsOf, type RoutedFunction } from '../openapi/declaration.ts';
import { DECLARATIONS } from './routes/lists/declarations.ts';

export type { RoutedFunction };

export interface Route extends Place {
  readonly function: RoutedFunction;
  /** Whether it belongs to the worker service. */
  readonly isWorker: boolean;
}

export const ROUTES: readonly Route[] = DECLARATIONS.flatMap(({ routes, function: name, errorForm }) =>
  name === undefined
    ? []
    : routes.map((key) => ({ ...partsOf(key), function: name, isWorker: errorForm === 'WorkerError' })),
);
