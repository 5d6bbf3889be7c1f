/**
 * Reads the body of an Open Inference Protocol request: its inputs, each as a tensor or as JSON, and the requested
 * outputs. The bytes of binary tensors follow the JSON in order. Their sizes come from untrusted callers, so each is
 * checked against its shape and the available bytes, and no byte may be left over.
 */

import { badInput, badRequest, ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { isCount } from '../../contract/present.ts';
import { type DType, elementCount, type Tensor } from '../../contract/tensor.ts';
import { isObject, longName, parseJson, readJson } from '../instances.ts';
import { EACH, type Place, parseNumbers } from '../numbers/parse.ts';
import { quoteName, quoteValue } from '../quote.ts';
import {
  flagOf,
  isAbsent,
  outputParameters,
  parametersOf,
  refuseSharedMemory,
  requestParameters,
  wrong,
} from './parameters.ts';
import { BF16, binaryTensor, DATATYPES, DTYPES } from './tensor.ts';
import { readPictures } from './texts.ts';

/** The header (in lower case) with the number of bytes of a body's JSON. */
export const JSON_LENGTH_HEADER = 'inference-header-content-length';

type Content =
  | { readonly tensor: Tensor }
  /** `data` is flat or nested; its numbers are not checked yet. */
  | { readonly dtype: DType; readonly shape: readonly number[]; readonly data: unknown }
  /** Image files, as elements of BYTES. */
  | { readonly pictures: readonly Uint8Array[] };

export type InferenceInput = Content & { readonly name: string };

/** An input, but for its content. */
export interface InputHead {
  readonly index: number;
  readonly where: string;
  /** As the protocol calls it. */
  readonly datatype: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Finds the content of an input where its protocol has it. @throws bad_request, bad_input, too_large */
export type ReadContent = (input: InputHead) => Content;

interface RequestedOutput {
  readonly name: string;
  readonly binary: boolean;
  /** How many of the largest values are wanted, as texts with their places; undefined for the tensor. */
  readonly classes?: number | undefined;
}

export interface InferenceRequest {
  readonly id: string | undefined;
  readonly inputs: readonly InferenceInput[];
  /** Undefined for all outputs. */
  readonly outputs: readonly RequestedOutput[] | undefined;
  /** The form of outputs that are not named. */
  readonly binary: boolean;
  /** A run that has not begun by then is not wanted. */
  readonly timeoutMs?: number | undefined;
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
  const { parsed: request } = readText(json, jsonLength);
  if (!isObject(request)) throw wrong('the body', 'an object', request);
  const contents = new Contents(binary);
  const read = readInference(request, (input) => contents.read(input));
  contents.assertRead();
  return read;
}

/**
 * @param request with the fields of the REST protocol's JSON
 * @throws bad_request, bad_input, too_large
 */
export function readInference(
  request: Readonly<Record<string, unknown>>,
  readContent: ReadContent,
): InferenceRequest {
  const { binary: isBinary, timeoutMs } = requestParameters(parametersOf(request, 'the request'));
  return {
    id: idOf(request['id']),
    inputs: readInputs(request['inputs'], readContent),
    outputs: readOutputs(request['outputs'], isBinary),
    binary: isBinary,
    timeoutMs,
  };
}

/**
 * Reads a request for the repository's index: whether only models that are ready are wanted. Triton's clients send no body.
 * @throws bad_request
 */
export function decodeIndexRequest(body: Uint8Array | string): boolean {
  if (body.length === 0) return false;
  const request = parseJson(body, '{"ready":true}');
  if (!isObject(request)) throw wrong('the body', 'an object', request);
  return flagOf(request, 'ready', 'the request') ?? false;
}

/** Where the numbers of a tensor are. */
const DATA: readonly Place[] = [['inputs', EACH, 'data']];

const EXAMPLE = '{"inputs":[{"name","shape","datatype","data"}]}';

function readText(json: Uint8Array | string, jsonLength: number | undefined) {
  try {
    return readJson(json, EXAMPLE, (text) => parseNumbers(text, DATA));
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (jsonLength !== undefined || typeof json === 'string') throw error;
    const hint = `where binary tensors follow, the header ${JSON_LENGTH_HEADER} says how long the JSON is`;
    throw new ServingError(code, `${message}; ${hint}`, { cause: error });
  }
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

function idOf(id: unknown): string | undefined {
  if (isAbsent(id)) return undefined;
  if (typeof id !== 'string') throw wrong('"id"', 'a text', id);
  if (id.length <= LIMITS.uriBytes) return id;
  throw overLimit('uriBytes', `"id" has ${id.length} characters,`);
}

function readInputs(inputs: unknown, readContent: ReadContent): InferenceInput[] {
  const given = listOf(inputs, 'inputs');
  if (given.length === 0) throw badRequest('"inputs" is empty');
  const names = new Set<string>();
  return given.map((input, index) => {
    const { name, fields } = namedEntry(input, `inputs[${index}]`, names);
    const where = `input ${quoteName(name)}`;
    const { datatype, dtype } = datatypeOf(fields['datatype'], where);
    const shape = shapeOf(fields['shape'], where);
    return { name, ...readContent({ index, where, datatype, dtype, shape, fields }) };
  });
}

/** @throws bad_input, too_large, naming `where` */
export function binaryContent(
  where: string,
  datatype: string,
  shape: readonly number[],
  bytes: Uint8Array,
): Content {
  const pictures = datatype === DATATYPES.string ? picturesIn(bytes, shape) : undefined;
  return pictures ? pictureContent(where, pictures) : { tensor: binaryTensor(where, datatype, shape, bytes) };
}

export function pictureContent(where: string, pictures: readonly Uint8Array[]): Content {
  if (pictures.length <= LIMITS.instances) return { pictures };
  throw overLimit('instances', `${where}: ${pictures.length} images are`, 'a request');
}

/** Undefined for texts, and for what is wrong, which is said of texts, too. */
function picturesIn(bytes: Uint8Array, shape: readonly number[]): readonly Uint8Array[] | undefined {
  try {
    return readPictures(bytes, elementCount(shape));
  } catch {
    return undefined;
  }
}

/** The contents of inputs in the JSON, or in the bytes behind it. */
class Contents {
  readonly #binary: Uint8Array;
  #offset = 0;

  constructor(binary: Uint8Array) {
    this.#binary = binary;
  }

  read({ where, datatype, dtype, shape, fields }: InputHead): Content {
    const size = binarySize(fields, where);
    if (size === undefined) {
      const { data } = fields;
      if (isAbsent(data)) throw badRequest(`${where}: expected "data", or a parameter "binary_data_size"`);
      if (datatype === BF16) throw badInput(`${where}: BF16 travels in binary data only`);
      return { dtype, shape, data };
    }
    const left = this.#binary.byteLength - this.#offset;
    if (size > left) {
      throw badRequest(
        `${where}: binary_data_size is ${size}, and ${left} bytes are left behind the JSON${left === 0 ? `; ${JSON_LENGTH_HEADER} says where it ends` : ''}`,
      );
    }
    const bytes = this.#binary.subarray(this.#offset, this.#offset + size);
    this.#offset += size;
    return binaryContent(where, datatype, shape, bytes);
  }

  assertRead(): void {
    const left = this.#binary.byteLength - this.#offset;
    if (left > 0) throw badRequest(`${left} bytes are left over behind the binary tensors`);
  }
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

function datatypeOf(datatype: unknown, where: string): Pick<InputHead, 'datatype' | 'dtype'> {
  if (typeof datatype === 'string') {
    const dtype = DTYPES.get(datatype);
    if (dtype !== undefined) return { datatype, dtype };
  }
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
  return shape;
}

/** Undefined for a tensor whose data is in the JSON. */
function binarySize(fields: Readonly<Record<string, unknown>>, where: string): number | undefined {
  const parameters = parametersOf(fields, where);
  refuseSharedMemory(parameters, where);
  const size = parameters['binary_data_size'];
  if (isAbsent(size)) return undefined;
  if (!isCount(size)) {
    throw wrong(`${where}: binary_data_size`, 'a whole number of bytes', size);
  }
  if (!isAbsent(fields['data'])) {
    throw badRequest(`${where}: has "data" and "binary_data_size"; expected one of them`);
  }
  return size;
}

/** @param binary the default for outputs without this setting */
function readOutputs(outputs: unknown, binary: boolean): RequestedOutput[] | undefined {
  if (isAbsent(outputs)) return undefined;
  const given = listOf(outputs, 'outputs');
  const names = new Set<string>();
  const read = given.map((output, index) => {
    const { name, fields } = namedEntry(output, `outputs[${index}]`, names);
    const where = `output ${quoteName(name)}`;
    return { name, ...outputParameters(parametersOf(fields, where), where, binary) };
  });
  return read.length > 0 ? read : undefined;
}

function listOf(value: unknown, name: 'inputs' | 'outputs'): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(`"${name}"`, 'an array', value);
  if (value.length <= LIMITS.inputsPerRecord) return value;
  throw overLimit('inputsPerRecord', `${value.length} ${name} are`);
}
