/**
 * The declaration of a route: which requests it takes, who answers them, and how they are described. The events of API Gateway, the
 * routes of a single machine, OpenAPI and the table of docs/reference/http.md are made of it. No function may import a declaration: the
 * bundler drops it from a function as long as it is one literal, and what computes is within `operations`.
 */
import type { ServiceFacts } from './facts.ts';
import type { Operation } from './operation.ts';

/** The deployed functions that answer HTTP; `submit` is the bundle of `predictions`, outside the VPC. */
export type RoutedFunction = 'predict' | 'submit' | 'predictions' | 'status';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';

/** As API Gateway writes it; `{name+}` takes the rest of the path, slashes included. */
export type RouteKey = `${Method} /${string}`;

/** How errors are answered: the name of the schema. */
export type ErrorForm = 'Error' | 'WorkerError' | 'ServingError' | 'OpenAIError';

/** An operation; without a method and a path it has those of the first route. */
export type DeclaredOperation = Omit<Operation, 'method' | 'path'> &
  Partial<Pick<Operation, 'method' | 'path'>>;

export interface Declaration {
  readonly routes: readonly [RouteKey, ...RouteKey[]];
  /** Undefined for what only a single machine answers. */
  readonly function?: RoutedFunction;
  /** The routes are deployed where the job has this alone. */
  readonly needs?: 'jobs';
  /** Default: Error. */
  readonly errorForm?: ErrorForm;
  /** One greedy route may have many. */
  readonly operations: (facts: ServiceFacts) => readonly DeclaredOperation[];
}

/** An operation of a declaration, with what it shares with the others. */
export interface DescribedOperation extends Operation {
  readonly errorForm: ErrorForm;
  readonly isLocal: boolean;
}

export function operationsOf(
  facts: ServiceFacts,
  declarations: readonly Declaration[],
): readonly DescribedOperation[] {
  return declarations.flatMap(({ routes, operations, errorForm = 'Error', function: name }) => {
    const { method, path } = partsOf(routes[0]);
    const defaults = { method: method.toLowerCase() as Operation['method'], path, errorForm };
    return operations(facts).map((operation) => ({ ...defaults, ...operation, isLocal: name === undefined }));
  });
}

export interface Route {
  readonly method: Method;
  readonly path: string;
}

export function partsOf(key: RouteKey): Route {
  const [method, path] = key.split(' ') as [Method, string];
  return { method, path };
}
