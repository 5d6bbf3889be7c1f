/** What an operation of the HTTP API is, and the parts that many have. */
import type { ErrorCode } from '../contract/errors.ts';
import type { Json } from './facts.ts';

export interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  /** As OpenAPI writes it, where each parameter is one part of the path. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly parameters?: readonly Json[];
  /** By media type. */
  readonly body?: Readonly<Record<string, Json>>;
  readonly isBodyOptional?: true;
  /** Of answers that are no errors, by status. */
  readonly answers: Readonly<Record<number, Json>>;
  /** The errors besides those that every operation has. */
  readonly errors: readonly ErrorCode[];
}

/** What every operation that runs the model may answer. */
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
