/**
 * The types of a bad-input case, and what every answer to one must satisfy: the message says what was expected or
 * received, and stays short, because it goes into a response, a log and Redis.
 */
import assert from 'node:assert/strict';
import type { ErrorCode } from '../../../lib/contract/errors.ts';
import type { ModelName } from './models.ts';

export type Text = string | (() => string);
export type Body = string | Uint8Array | (() => string | Uint8Array);

/** One instance `{name: value}` as JSON text, for POST /predict and for the queue. */
export type InstanceCase = readonly [
  name: string,
  model: ModelName,
  instance: Text,
  code: ErrorCode,
  message: RegExp,
];

/** A whole body. */
export type BodyCase = readonly [name: string, body: Body, code: ErrorCode, message: RegExp];

/** A record's data in one of the binary formats. */
export type DataCase = readonly [name: string, data: () => Uint8Array, code: ErrorCode, message: RegExp];

/** By hand, from docs/reference/http.md: the code decides the status, and this says which. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  bad_request: 400,
  bad_input: 400,
  not_found: 404,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  model_failed: 422,
};

/** Longest message there may be: 16 dimensions, eight names of 80 characters and a sentence fit. */
const LONGEST_MESSAGE = 1_500;

export interface Refusal {
  readonly status?: number;
  readonly code?: unknown;
  readonly error?: unknown;
}

export function assertRefusal(answer: Refusal, code: ErrorCode, message: RegExp): void {
  const { status, code: got, error } = answer;
  assert.equal(got, code, `expected ${code}, got ${String(got)}: ${String(error).slice(0, 300)}`);
  if (status !== undefined) assert.equal(status, STATUS[code]);
  assert.ok(
    typeof error === 'string' && error.length <= LONGEST_MESSAGE,
    `a message of ${String(error).length}`,
  );
  assert.match(error, message);
}

export function textOf(text: Text): string {
  return typeof text === 'string' ? text : text();
}

export function bodyOf(body: Body): string | Uint8Array {
  return typeof body === 'function' ? body() : body;
}

const MiB = 1024 * 1024;

/** Fails when what runs in between keeps more than `limitMiB` of memory: one 6 MiB body may be expanded at a time. */
export function watchMemory(limitMiB = 512): () => void {
  const before = process.memoryUsage.rss();
  return () => {
    const grown = (process.memoryUsage.rss() - before) / MiB;
    assert.ok(grown < limitMiB, `the process grew by ${Math.round(grown)} MiB`);
  };
}
