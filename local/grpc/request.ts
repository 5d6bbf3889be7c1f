/**
 * Reads the message of a ModelInfer call into the request that REST has too. Its tensors are typed (`contents`) or bytes
 * (`raw_input_contents`, all of them or none).
 */
import { refuseSharedMemory } from '../../lib/codecs/open-inference/parameters.ts';
import {
  binaryContent,
  type InferenceRequest,
  pictureContent,
  type ReadContent,
  readInference,
} from '../../lib/codecs/open-inference/request.ts';
import { BF16 } from '../../lib/codecs/open-inference/tensor.ts';
import { decodeText, picturesOf } from '../../lib/codecs/open-inference/texts.ts';
import { badInput, badRequest, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import {
  allocate,
  type DType,
  elementCount,
  formatShape,
  type Tensor,
  type TypedArray,
} from '../../lib/contract/tensor.ts';
import { type Message, type MessageMap, readMessage, type Table } from '../../onnx-import/protobuf.ts';
import { INFER_REQUEST } from './tables.ts';

/** Messages, texts and byte strings of one request, each of which costs far more memory than its bytes. */
const MOST_ITEMS = 262_144;

export interface InferCall {
  readonly model: string;
  /** Undefined for the one that serves. */
  readonly version: string | undefined;
  readonly request: InferenceRequest;
}

/** @throws bad_request */
export function readRequest(bytes: Uint8Array, table: Table): Message {
  try {
    return readMessage(bytes, table, { what: 'the message', limits: { depth: 8, items: MOST_ITEMS } });
  } catch (error) {
    // The reader's errors speak of files.
    throw badRequest(ServingError.from(error).message, { cause: error });
  }
}

/** @throws bad_request, bad_input, too_large */
export function readInfer(bytes: Uint8Array): InferCall {
  const { model_name: model = '', model_version: version, ...fields } = readRequest(bytes, INFER_REQUEST);
  const inputs = (fields['inputs'] ?? []) as readonly Message[];
  const raw = (fields['raw_input_contents'] ?? []) as readonly Uint8Array[];
  if (raw.length > 0 && raw.length !== inputs.length) {
    throw badRequest(
      `${raw.length} raw_input_contents came for ${inputs.length} inputs; expected one for each`,
    );
  }
  const readContent: ReadContent = (head) => {
    const { index, where, datatype, shape } = head;
    const { parameters } = head.fields;
    refuseSharedMemory(Object(parameters), where);
    const contents = inputs[index]?.['contents'] as Message | undefined;
    const own = raw[index];
    if (own === undefined) return typedContent(contents ?? {}, head);
    if (contents === undefined || Object.keys(contents).length === 0)
      return binaryContent(where, datatype, shape, own);
    throw badRequest(`${where}: has contents and raw_input_contents; expected one of them`);
  };
  const request = {
    id: fields['id'] || undefined,
    parameters: parametersOf(fields),
    inputs: inputs.map(entryOf),
    outputs: ((fields['outputs'] ?? []) as readonly Message[]).map(entryOf),
  };
  return {
    model: model as string,
    version: (version as string) || undefined,
    request: readInference(request, readContent),
  };
}

/** An input or output with the fields of the REST protocol. */
function entryOf({ name = '', datatype, shape, parameters }: Message) {
  // One dimension too many is enough for a refusal; six million of them fit into 6 MiB.
  const dims = Array.from(
    (shape as BigInt64Array | undefined)?.subarray(0, LIMITS.tensorRank + 1) ?? [],
    Number,
  );
  return { name, datatype, shape: dims, parameters: parametersOf({ parameters }) };
}

/** A parameter without a value is null. */
function parametersOf({ parameters }: Message): Record<string, unknown> | undefined {
  if (parameters === undefined) return undefined;
  const entries = [...(parameters as MessageMap)] as [string, Message][];
  return Object.fromEntries(entries.map(([name, one]) => [name, Object.values(one)[0] ?? null]));
}

/** Where the elements of a dtype are; those of FP16 have no place. */
const PLACES: Readonly<Partial<Record<DType, string>>> = {
  bool: 'bool_contents',
  int8: 'int_contents',
  int16: 'int_contents',
  int32: 'int_contents',
  int64: 'int64_contents',
  uint8: 'uint_contents',
  uint16: 'uint_contents',
  uint32: 'uint_contents',
  uint64: 'uint64_contents',
  float32: 'fp32_contents',
  float64: 'fp64_contents',
  string: 'bytes_contents',
};
const SMALLER: ReadonlySet<DType> = new Set(['int8', 'int16', 'uint8', 'uint16']);

function typedContent(
  contents: Message,
  { where, datatype, dtype, shape }: Parameters<ReadContent>[0],
): ReturnType<ReadContent> {
  const place = datatype === BF16 ? undefined : PLACES[dtype];
  if (place === undefined) throw badRequest(`${where}: ${datatype} travels in raw_input_contents only`);
  const other = Object.keys(contents).find((name) => name !== place);
  if (other !== undefined) throw badRequest(`${where}: has ${other}; ${datatype} travels in ${place}`);
  const data = (contents[place] ?? []) as Tensor['data'] | readonly Uint8Array[];
  try {
    const count = elementCount(shape, LIMITS.tensorElements);
    if (data.length !== count) {
      throw badInput(`${place} has ${data.length} elements; ${formatShape(shape)} takes ${count}`);
    }
    // Numbers that came as 32 bits may not fit.
    if (SMALLER.has(dtype)) return { dtype, shape, data: Array.from(data as Int32Array) };
    if (dtype === 'string') {
      const elements = data as readonly Uint8Array[];
      const pictures = picturesOf(elements);
      if (pictures) return pictureContent(where, pictures);
      return { tensor: { dtype, shape, data: elements.map(decodeText) } };
    }
    if (count === 0) return { tensor: { dtype, shape, data: allocate(dtype, 0) } };
    return { tensor: { dtype, shape, data: data as TypedArray } };
  } catch (error) {
    const { code, message } = ServingError.from(error);
    throw new ServingError(code, `${where}: ${message}`, { cause: error });
  }
}
