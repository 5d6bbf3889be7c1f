/** An operation of the HTTP API, and the parts that many have. */
import type { ErrorCode } from '../contract/errors.ts';
import type { Json } from './facts.ts';
import { CANARY_KEY } from './json-schema.ts';

export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** As OpenAPI writes it, where each parameter is one part of the path. */
  readonly path: string;
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

/** The header of what a canary may answer. */
export const keyParameter = () =>
  parameter(
    'Canary-Key',
    'header',
    CANARY_KEY,
    'While a canary takes a share: requests and records of one key go to one version.',
  );

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
