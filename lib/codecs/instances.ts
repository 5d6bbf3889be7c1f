/**
 * In: the body of POST /predict. Out: its instances as records, in order.
 * Trap: a value stays JSON here; only the model knows whether "abc" is text or a base64 image (pipeline/bind).
 */
import { LIMITS } from '../contract/limits.ts';
import type { Inputs, Value } from '../contract/values.ts';
import { ServingError } from '../errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

const EXAMPLE = '{"instances":[{"<input>":<number, text, base64 image, nested array or sparse tensor>}]}';

/** @throws bad_request when the bytes are not UTF-8 or not JSON */
export function parseJson(body: Uint8Array | string): unknown {
  let text: string;
  try {
    text = typeof body === 'string' ? body : utf8.decode(body);
  } catch {
    throw new ServingError('bad_request', 'the body is not valid UTF-8');
  }
  if (text.trim() === '') throw new ServingError('bad_request', `the body is empty; expected ${EXAMPLE}`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ServingError('bad_request', `the body is not JSON: ${(error as Error).message}`);
  }
}

/**
 * `{"instances":[{name: value, ...}, ...]}` as records.
 * @throws bad_request naming what is missing; too_large over LIMITS.instances
 */
export function decodeInstances(body: Uint8Array | string): Inputs[] {
  const parsed = parseJson(body);
  const instances = isObject(parsed) ? parsed['instances'] : undefined;
  if (!Array.isArray(instances)) {
    const got = isObject(parsed)
      ? `the keys ${JSON.stringify(Object.keys(parsed).slice(0, 8))}`
      : kindOf(parsed);
    throw new ServingError(
      'bad_request',
      `no "instances" array in the body (got ${got}); expected ${EXAMPLE}`,
    );
  }
  if (instances.length === 0) {
    throw new ServingError('bad_request', `"instances" is empty; expected ${EXAMPLE}`);
  }
  if (instances.length > LIMITS.instances) {
    throw new ServingError(
      'too_large',
      `${instances.length} instances are over the limit of ${LIMITS.instances} a request`,
    );
  }
  return instances.map((instance: unknown, index) => decodeInstance(instance, `instances[${index}]`));
}

/** One JSON object `{name: value}` as a record; `where` names it in errors. */
export function decodeInstance(instance: unknown, where: string): Inputs {
  if (!isObject(instance)) {
    throw new ServingError(
      'bad_request',
      `${where}: expected an object of inputs by name, got ${kindOf(instance)}`,
    );
  }
  const entries = Object.entries(instance);
  if (entries.length === 0) throw new ServingError('bad_request', `${where}: has no inputs`);
  if (entries.length > LIMITS.inputsPerRecord) {
    throw new ServingError(
      'too_large',
      `${where}: ${entries.length} inputs are over the limit of ${LIMITS.inputsPerRecord}`,
    );
  }
  const inputs = new Map<string, Value>();
  for (const [name, value] of entries) inputs.set(name, { kind: 'json', value });
  return inputs;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
