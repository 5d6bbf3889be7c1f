/** What the operations of the worker service share with those that only a single machine has. */
import type { Json } from './facts.ts';
import { object, TEXT } from './json-schema.ts';

export const NAME = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' } as const;
export const BYTES = { type: 'string', format: 'binary' } as const;
export const FRAME = 'application/x-wkr';

export function envelope(data: Json): Json {
  return object({ error_code: { type: 'integer', const: 0 }, error_message: TEXT, data });
}
