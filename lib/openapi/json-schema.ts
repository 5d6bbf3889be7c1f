/** Parts of which the schemas are made, as JSON Schema 2020-12. */
import { TASK_TOKEN_LENGTH } from '../contract/notice.ts';
import { MOST_DELAY_SECONDS, MOST_EXPIRES_AFTER } from '../contract/schedule.ts';
import type { Json } from './facts.ts';

/** A JSON object with any keys. */
export const OBJECT = { type: 'object' } as const;
export const TEXT = { type: 'string' } as const;
export const COUNT = { type: 'integer', minimum: 0 } as const;

export function object(properties: Json, optional: readonly string[] = []): Json {
  return {
    type: 'object',
    properties,
    required: Object.keys(properties).filter((key) => !optional.includes(key)),
  };
}

export function list(items: Json, most?: number): Json {
  return { type: 'array', items, ...(most === undefined ? {} : { minItems: 1, maxItems: most }) };
}

/** A header, and the attribute `canary-key` of a message. */
export const CANARY_KEY: Json = { ...TEXT, pattern: '^[!-~]{1,128}$' };
export const TARGET: Json = { ...TEXT, pattern: '^[A-Za-z][A-Za-z0-9_-]{0,39}$' };
export const EXPIRES_AFTER: Json = { type: 'integer', minimum: 1, maximum: MOST_EXPIRES_AFTER };
export const DELAY_SECONDS: Json = { type: 'integer', minimum: 0, maximum: MOST_DELAY_SECONDS };
export const PRIORITY: Json = { ...TEXT, enum: ['high', 'normal'] };
/** Keys of a record. */
export const SAID: Readonly<Record<string, Json>> = {
  notify: TARGET,
  taskToken: { ...TEXT, pattern: `^[!-~]{1,${TASK_TOKEN_LENGTH}}$` },
  expiresAfter: EXPIRES_AFTER,
  delaySeconds: DELAY_SECONDS,
  priority: PRIORITY,
};
