/**
 * Reads the parameters of an Open Inference request, of its inputs and of its outputs. What would change an answer and is not
 * served is refused. A priority is a hint, and parameters that Triton does not reserve are for models that read them, which
 * none here does: both are ignored.
 */

import { badRequest, type ServingError } from '../../contract/errors.ts';
import { isCount } from '../../contract/present.ts';
import { isObject } from '../instances.ts';
import { kindOf, quoteName, quoteValue } from '../quote.ts';

type Parameters = Readonly<Record<string, unknown>>;

/** Optional fields may be null, because some clients write all fields. */
export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

const NO_PARAMETERS: Parameters = {};

/** @throws bad_request */
export function parametersOf(fields: Parameters, where: string): Parameters {
  const { parameters } = fields;
  if (isAbsent(parameters)) return NO_PARAMETERS;
  if (!isObject(parameters)) throw wrong(`${where}: "parameters"`, 'an object', parameters);
  return parameters;
}

/** @throws bad_request for a sequence, for parameters that Triton keeps for itself, and for anything but a flag or number */
export function requestParameters(parameters: Parameters) {
  const where = 'the request';
  const sequence = parameters['sequence_id'];
  // 0 and "" say that the request belongs to none.
  const isOne = !isAbsent(sequence) && sequence !== 0 && sequence !== '';
  if (isOne || flagOf(parameters, 'sequence_start', where) || flagOf(parameters, 'sequence_end', where)) {
    throw badRequest('sequences (sequence_id) are not served; a model keeps no state between requests');
  }
  const reserved = Object.keys(parameters).find((name) => name.startsWith('triton_'));
  if (reserved !== undefined) throw badRequest(`the request: ${quoteName(reserved)} is not served`);
  countOf(parameters, 'priority', where);
  const timeoutUs = countOf(parameters, 'timeout', where);
  return {
    binary: flagOf(parameters, 'binary_data_output', where) ?? false,
    timeoutMs: timeoutUs ? timeoutUs / 1000 : undefined,
  };
}

/** @param binary the default @throws bad_request */
export function outputParameters(parameters: Parameters, where: string, binary: boolean) {
  refuseSharedMemory(parameters, where);
  return {
    binary: flagOf(parameters, 'binary_data', where) ?? binary,
    // 0 asks for the tensor, as in Triton.
    classes: countOf(parameters, 'classification', where) || undefined,
  };
}

export const NO_SHARED_MEMORY = 'shared memory is not served; send the tensor in the body';

/** Server and clients cannot share memory. @throws bad_request */
export function refuseSharedMemory(parameters: Parameters, where: string): void {
  const shared = ['shared_memory_region', 'shared_memory_byte_size', 'shared_memory_offset'];
  if (shared.every((name) => isAbsent(parameters[name]))) return;
  throw badRequest(`${where}: ${NO_SHARED_MEMORY}`);
}

/** @throws bad_request */
export function flagOf(parameters: Parameters, name: string, where: string): boolean | undefined {
  const flag = parameters[name];
  if (isAbsent(flag)) return undefined;
  if (typeof flag === 'boolean') return flag;
  throw wrong(`${where}: ${name}`, 'true or false', flag);
}

function countOf(parameters: Parameters, name: string, where: string): number | undefined {
  const count = parameters[name];
  if (isAbsent(count)) return undefined;
  if (isCount(count)) return count;
  throw wrong(`${where}: ${name}`, 'a whole number', count);
}

export function wrong(what: string, expected: string, got: unknown): ServingError {
  const shown = typeof got === 'number' || typeof got === 'bigint' ? quoteValue(got) : kindOf(got);
  return badRequest(`${what}: expected ${expected}, got ${shown}`);
}
