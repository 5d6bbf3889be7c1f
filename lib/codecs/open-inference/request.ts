/**
 * Reads the body of an Open Inference Protocol request: its inputs, each as a tensor or as JSON, and the requested
 * outputs. The bytes of binary tensors follow the JSON in order. Their sizes come from untrusted callers, so each is
 * checked against its shape and the available bytes, and no byte may be left over.
 */
import { badInput, badRequest, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import type { DType, Tensor } from '../../contract/tensor.ts';
import { isObject, longName, parseJson } from '../instances.ts';
import { kindOf, quoteName, quoteValue } from '../quote.ts';
import { binaryTensor, DTYPES } from './tensor.ts';

/** The header (in lower case) with the number of bytes of a body's JSON. */
export const JSON_LENGTH_HEADER = 'inference-header-content-length';

type Content =
  | { readonly tensor: Tensor }
  /** `data` is flat or nested; its numbers are not checked yet. */
  | { readonly dtype: DType; readonly shape: readonly number[]; readonly data: unknown };

export type InferenceInput = Content & { readonly name: string };

/** Reads the content of the input at `index`, where a protocol has it elsewhere than REST. @throws as `readInference` */
export type ReadContent = (
  index: number,
  input: { readonly where: string; readonly dtype: DType; readonly shape: readonly number[] },
) => Content;

interface RequestedOutput {
  readonly name: string;
  readonly binary: boolean;
}

export interface InferenceRequest {
  readonly id: string | undefined;
  readonly inputs: readonly InferenceInput[];
  /** Undefined for all outputs. */
  readonly outputs: readonly RequestedOutput[] | undefined;
  /** The form of outputs that are not named. */
  readonly binary: boolean;
}

/** Value of the header -> number of bytes; undefined without it. @throws bad_request */
export function jsonLengthOf(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  if (!/^\d{1,15}$/.test(header)) {
    throw badRequest(`${JSON_LENGTH_HEADER}: expected a whole number of bytes, got ${quoteName(header)}`);
  }
  return Number(header);
}

/**
 * @param jsonLength bytes of the JSON, which the binary tensors follow; undefined for a body with JSON only
 * @throws bad_request, bad_input, too_large
 */
export function decodeInference(body: Uint8Array | string, jsonLength: number | undefined): InferenceRequest {
  const { json, binary } = splitBody(body, jsonLength);
  return readInference(parseRequest(json, jsonLength), binary);
}

/**
 * @param request with the fields of the REST protocol's JSON
 * @param contents the bytes of the binary tensors, or what reads the content of every input
 * @throws bad_request, bad_input, too_large
 */
export function readInference(
  request: Readonly<Record<string, unknown>>,
  contents: Uint8Array | ReadContent,
): InferenceRequest {
  const parameters = parametersOf(request, 'the request');
  const isBinary = flagOf(parameters, 'binary_data_output', 'the request') ?? false;
  return {
    id: idOf(request['id']),
    inputs:
      typeof contents === 'function'
        ? readInputs(request['inputs'], NO_BYTES, contents)
        : readInputs(request['inputs'], contents),
    outputs: readOutputs(request['outputs'], isBinary),
    binary: isBinary,
  };
}

const EXAMPLE = '{"inputs":[{"name","shape","datatype","data"}]}';

function parseRequest(json: Uint8Array | string, jsonLength: number | undefined): Record<string, unknown> {
  let request: unknown;
  try {
    request = parseJson(json, EXAMPLE);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (jsonLength !== undefined || typeof json === 'string') throw error;
    const hint = `where binary tensors follow, the header ${JSON_LENGTH_HEADER} says how long the JSON is`;
    throw new ServingError(code, `${message}; ${hint}`, { cause: error });
  }
  if (isObject(request)) return request;
  throw wrong('the body', 'an object', request);
}

const NO_BYTES = new Uint8Array(0);

function splitBody(body: Uint8Array | string, jsonLength: number | undefined) {
  if (jsonLength === undefined) return { json: body, binary: NO_BYTES };
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  if (jsonLength > length) {
    throw badRequest(`${JSON_LENGTH_HEADER} is ${jsonLength}, the body has ${length} bytes`);
  }
  if (typeof body !== 'string') {
    return { json: body.subarray(0, jsonLength), binary: body.subarray(jsonLength) };
  }
  // In a body declared as text, the gateway has replaced every byte that was not UTF-8.
  if (jsonLength < length) {
    throw badRequest(
      'binary tensors came in a body of text; send them with content-type: application/octet-stream',
    );
  }
  return { json: body, binary: NO_BYTES };
}

/** Optional fields may be null, because some clients write all fields. */
function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function idOf(id: unknown): string | undefined {
  if (isAbsent(id)) return undefined;
  if (typeof id !== 'string') throw wrong('"id"', 'a text', id);
  if (id.length <= LIMITS.uriBytes) return id;
  throw overLimit('uriBytes', `"id" has ${id.length} characters,`);
}

function readInputs(inputs: unknown, binary: Uint8Array, readContent?: ReadContent): InferenceInput[] {
  const given = listOf(inputs, 'inputs');
  if (given.length === 0) throw badRequest('"inputs" is empty');
  const read: InferenceInput[] = [];
  const names = new Set<string>();
  let offset = 0;
  for (const [index, input] of given.entries()) {
    const { name, fields } = namedEntry(input, `inputs[${index}]`, names);
    const where = `input ${quoteName(name)}`;
    const dtype = dtypeOf(fields['datatype'], where);
    const shape = shapeOf(fields['shape'], where);
    const size = binarySize(fields, where);
    if (readContent) {
      read.push({ name, ...readContent(index, { where, dtype, shape }) });
      continue;
    }
    if (size === undefined) {
      if (isAbsent(fields['data'])) {
        throw badRequest(`${where}: expected "data", or a parameter "binary_data_size"`);
      }
      read.push({ name, dtype, shape, data: fields['data'] });
      continue;
    }
    const left = binary.byteLength - offset;
    if (size > left) {
      throw badRequest(
        `${where}: binary_data_size is ${size}, and ${left} bytes are left behind the JSON${left === 0 ? `; ${JSON_LENGTH_HEADER} says where it ends` : ''}`,
      );
    }
    read.push({ name, tensor: binaryTensor(where, dtype, shape, binary.subarray(offset, offset + size)) });
    offset += size;
  }
  if (offset < binary.byteLength) {
    throw badRequest(`${binary.byteLength - offset} bytes are left over behind the binary tensors`);
  }
  return read;
}

/** Reads an input or output entry, whose name must be unique. */
function namedEntry(entry: unknown, place: string, names: Set<string>) {
  if (!isObject(entry)) throw wrong(place, 'an object', entry);
  const { name } = entry;
  if (typeof name !== 'string') throw wrong(`${place}.name`, 'a text', name);
  if (name.length > LIMITS.inputNameLength) throw longName(name, `${place}: `);
  if (names.has(name)) throw badRequest(`${place}: ${quoteName(name)} is there twice`);
  names.add(name);
  return { name, fields: entry };
}

function dtypeOf(datatype: unknown, where: string): DType {
  const dtype = typeof datatype === 'string' ? DTYPES.get(datatype) : undefined;
  if (dtype !== undefined) return dtype;
  throw badInput(
    `${where}: datatype ${quoteValue(datatype)} is not served; expected one of ${[...DTYPES.keys()].join(', ')}`,
  );
}

function shapeOf(shape: unknown, where: string): number[] {
  if (!Array.isArray(shape)) throw wrong(`${where}: "shape"`, 'an array', shape);
  if (shape.length > LIMITS.tensorRank) {
    throw overLimit('tensorRank', `${where}: ${shape.length} dimensions are`);
  }
  const odd = shape.findIndex((dim) => !Number.isSafeInteger(dim) || dim < 0);
  if (odd !== -1) throw wrong(`${where}: "shape"`, 'whole numbers from 0 to 2^53', shape[odd]);
  return shape as number[];
}

/** Undefined for a tensor whose data is in the JSON. */
function binarySize(fields: Readonly<Record<string, unknown>>, where: string): number | undefined {
  const parameters = parametersOf(fields, where);
  refuseSharedMemory(parameters, where);
  const size = parameters['binary_data_size'];
  if (isAbsent(size)) return undefined;
  if (!Number.isSafeInteger(size) || (size as number) < 0) {
    throw wrong(`${where}: binary_data_size`, 'a whole number of bytes', size);
  }
  if (!isAbsent(fields['data'])) {
    throw badRequest(`${where}: has "data" and "binary_data_size"; expected one of them`);
  }
  return size as number;
}

/** Refuses shared memory, which server and clients cannot have. */
function refuseSharedMemory(parameters: Readonly<Record<string, unknown>>, where: string): void {
  const shared = ['shared_memory_region', 'shared_memory_byte_size', 'shared_memory_offset'];
  if (shared.every((name) => isAbsent(parameters[name]))) return;
  throw badRequest(`${where}: shared memory is not served; send the tensor in the body`);
}

/** @param binary the default for outputs without this setting */
function readOutputs(outputs: unknown, binary: boolean): RequestedOutput[] | undefined {
  if (isAbsent(outputs)) return undefined;
  const given = listOf(outputs, 'outputs');
  const names = new Set<string>();
  const read = given.map((output, index) => {
    const { name, fields } = namedEntry(output, `outputs[${index}]`, names);
    const where = `output ${quoteName(name)}`;
    const parameters = parametersOf(fields, where);
    refuseSharedMemory(parameters, where);
    return { name, binary: flagOf(parameters, 'binary_data', where) ?? binary };
  });
  return read.length > 0 ? read : undefined;
}

function listOf(value: unknown, name: 'inputs' | 'outputs'): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(`"${name}"`, 'an array', value);
  if (value.length <= LIMITS.inputsPerRecord) return value;
  throw overLimit('inputsPerRecord', `${value.length} ${name} are`);
}

const NO_PARAMETERS: Readonly<Record<string, unknown>> = {};

function parametersOf(fields: Readonly<Record<string, unknown>>, where: string) {
  const { parameters } = fields;
  if (isAbsent(parameters)) return NO_PARAMETERS;
  if (!isObject(parameters)) throw wrong(`${where}: "parameters"`, 'an object', parameters);
  return parameters;
}

function flagOf(
  parameters: Readonly<Record<string, unknown>>,
  name: 'binary_data' | 'binary_data_output',
  where: string,
): boolean | undefined {
  const flag = parameters[name];
  if (isAbsent(flag)) return undefined;
  if (typeof flag === 'boolean') return flag;
  throw wrong(`${where}: ${name}`, 'true or false', flag);
}

function wrong(what: string, expected: string, got: unknown): ServingError {
  const shown = typeof got === 'number' ? String(got) : kindOf(got);
  return badRequest(`${what}: expected ${expected}, got ${shown}`);
}
