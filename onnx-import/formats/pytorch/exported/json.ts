/** Reads the JSON of a program: what is missing or of another kind is an error of the model. */
import { badModel } from '../../../../lib/contract/errors.ts';

export type Json = Readonly<Record<string, unknown>>;

/** @throws bad_model */
export function parseJson(bytes: Uint8Array, what: string): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch (error) {
    throw badModel(`${what}: is no JSON`, { cause: error });
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @throws bad_model */
export function object(value: unknown, what: string): Json {
  if (!isObject(value)) throw badModel(`the program has no ${what}`);
  return value;
}

export function optional(value: unknown): Json | undefined {
  return isObject(value) ? value : undefined;
}

/** @throws bad_model */
export function list(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw badModel(`the program has no list of ${what}`);
  return value;
}

/** @throws bad_model */
export function text(value: unknown, what: string): string {
  if (typeof value !== 'string') throw badModel(`the program has no ${what}`);
  return value;
}

/** @throws bad_model */
export function count(value: unknown, what: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw badModel(`the program has a broken ${what}`);
  return value;
}
