/** An operation of the HTTP API. It names the route that serves it, so that a route without a description is found. */
import type { ErrorCode } from '../contract/errors.ts';
import type { Json, ServiceFacts } from './facts.ts';

type Method = 'get' | 'post' | 'delete';

export interface Operation {
  readonly method: Method;
  /** As OpenAPI writes it, where each parameter is one part of the path. */
  readonly path: string;
  /** The path of the route that serves it, as API Gateway writes it. Default: `path`. */
  readonly route?: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly parameters?: readonly Json[];
  /** By media type. */
  readonly body?: Readonly<Record<string, Json>>;
  readonly isBodyOptional?: true;
  /** Successful answers, by status. */
  readonly answers: Readonly<Record<number, Json>>;
  /** The errors besides those that every operation has. */
  readonly errors: readonly ErrorCode[];
  /** Only a single machine serves it. */
  readonly isLocal?: true;
}

/** Answers of every operation that runs the model. */
export const RUN_ERRORS: readonly ErrorCode[] = [
  'bad_request',
  'bad_input',
  'too_large',
  'unsupported_media_type',
  'model_failed',
  'model_unavailable',
  'timeout',
  'results_unavailable',
];

export type Operations = (facts: ServiceFacts) => readonly Operation[];

export function parameter(
  name: string,
  where: 'path' | 'query' | 'header',
  schema: Json,
  about?: string,
): Json {
  return {
    name,
    in: where,
    required: where === 'path',
    schema,
    ...(about === undefined ? {} : { description: about }),
  };
}

export function answer(description: string, schema: Json, type = 'application/json'): Json {
  return { description, content: { [type]: { schema } } };
}
