/**
 * Converts the values passed to `enqueue` to a record's inputs. As in the Python client, a bare string is an image
 * path and a list of strings is text. Plain numbers have no dtype: they are sent as float32 if that is exact, else as
 * float64, and the model's input decides.
 */
import { isObject } from '../lib/codecs/instances.ts';
import { kindOf } from '../lib/codecs/quote.ts';
import { IMAGE_BYTES, over, TENSOR_ELEMENTS } from '../lib/contract/client-limits.ts';
import { badRequest, ServingError } from '../lib/contract/errors.ts';
import {
  allocate,
  assertCount,
  type DType,
  isNumericDType,
  type NumericDType,
  type Tensor,
  type TypedArray,
} from '../lib/contract/tensor.ts';
import type { Inputs, Value } from '../lib/contract/values.ts';
import { nestedTensor } from '../lib/pipeline/bind/nested.ts';

/** Numbers nested to any depth; all branches have the same shape. NaN is the missing value of a table. */
export type NestedNumbers = number | boolean | readonly NestedNumbers[];
export type NestedStrings = readonly (string | NestedStrings)[];

export type InputValue =
  /** The path of an image file, which is read here. */
  | string
  | { readonly path: string }
  /** An encoded image in base64. */
  | { readonly b64: string }
  /** An encoded image. */
  | { readonly bytes: Uint8Array | ArrayBuffer | Blob }
  | Blob
  /** Text. */
  | NestedStrings
  | NestedNumbers
  /** A missing value of a column of numbers: NaN. */
  | null
  /** One dimension with the dtype of the array (Uint8Array is uint8, not an image). */
  | TypedArray
  /**
   * A dense tensor with the dtype of the array, or the given one for plain numbers. float16 is its bits in a
   * Uint16Array.
   */
  | Dense
  /** A sparse tensor (COO): indices ndim x nnz or nnz x ndim, counted from 0. */
  | Sparse;

interface Dense {
  readonly data: TypedArray | readonly number[] | readonly string[];
  readonly shape: readonly number[];
  readonly dtype?: DType;
}

interface Sparse {
  readonly indices: readonly (readonly number[])[];
  readonly values: TypedArray | readonly number[];
  readonly shape: readonly number[];
}

/** Inputs by name. Their order matters only if the names are not the model's. */
export type RecordInputs = Readonly<Record<string, InputValue>>;

/** Reads the image file of a path. */
export type ReadFile = (path: string) => Promise<Uint8Array>;

const noFiles: ReadFile = () => {
  throw badRequest('a text is the path of an image; here, give { bytes } or { b64 }');
};

/**
 * @param readFile what a path is read with
 * @throws bad_request naming the input, also for an unreadable file
 */
export async function toInputs(values: RecordInputs, readFile: ReadFile = noFiles): Promise<Inputs> {
  if (!isObject(values))
    throw badRequest(`inputs: expected an object of inputs by name, got ${kindOf(values)}`);
  const entries = Object.entries(values);
  if (entries.length === 0) throw badRequest('a record needs at least one input');
  const inputs = new Map<string, Value>();
  for (const [name, value] of entries) {
    try {
      inputs.set(name, await toValue(value, readFile));
    } catch (error) {
      throw ofInput(name, error);
    }
  }
  return inputs;
}

/** The error of an input. */
export function ofInput(name: string, error: unknown): ServingError {
  const { code, message } = ServingError.from(error);
  const known = code === 'internal' ? 'bad_request' : code;
  return new ServingError(known, `input ${JSON.stringify(name)}: ${message}`, { cause: error });
}

async function toValue(value: InputValue, readFile: ReadFile): Promise<Value> {
  const bytes = await imageOf(value, readFile);
  if (bytes) return { kind: 'image', bytes };
  if (isSparse(value)) return sparseOf(value);
  return { kind: 'tensor', tensor: tensorOf(value as NumbersOrTexts) };
}

function isSparse(value: InputValue): value is Sparse {
  return isObject(value) && 'indices' in value && 'values' in value;
}

type NumbersOrTexts = null | TypedArray | NestedStrings | NestedNumbers | Dense;

/** @returns undefined for anything but an image */
async function imageOf(value: InputValue, readFile: ReadFile): Promise<Uint8Array | undefined> {
  if (typeof value === 'string') return readFile(value);
  if (value instanceof Blob) return readBlob(value);
  if (!isObject(value)) return undefined;
  if ('path' in value) return readFile(value.path);
  if ('b64' in value) return decoded(value.b64);
  return 'bytes' in value ? imageBytes(value.bytes) : undefined;
}

function tensorOf(value: NumbersOrTexts): Tensor {
  if (typeof Buffer === 'function' && Buffer.isBuffer(value)) {
    throw badRequest('got a Buffer; write { bytes } for an image, or new Uint8Array(...) for numbers');
  }
  if (ArrayBuffer.isView(value)) return tensorValue({ data: value, shape: [value.length] });
  if (value === null) return nested(NaN);
  if (typeof value === 'number' || typeof value === 'boolean' || Array.isArray(value)) return nested(value);
  if (typeof value !== 'object')
    throw badRequest(`expected numbers, texts, a tensor or an image, got ${kindOf(value)}`);
  if ('data' in value && 'shape' in value) return tensorValue(value);
  throw badRequest(
    `expected a path, {path}, {b64}, {bytes}, numbers, texts, {data,shape} or {indices,values,shape}, got the keys ${JSON.stringify(Object.keys(value))}`,
  );
}

/** Standard or url-safe, padded or not, with white space anywhere. */
function decoded(text: string): Uint8Array {
  if (typeof text !== 'string') throw badRequest(`b64: expected a text, got ${kindOf(text)}`);
  try {
    const latin = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = new Uint8Array(latin.length);
    for (let i = 0; i < latin.length; i++) bytes[i] = latin.charCodeAt(i);
    return bytes;
  } catch (error) {
    throw badRequest('b64: the text is not base64', { cause: error });
  }
}

async function imageBytes(value: Uint8Array | ArrayBuffer | Blob): Promise<Uint8Array> {
  if (value instanceof Blob) return readBlob(value);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (value instanceof Uint8Array) return value;
  throw badRequest(`bytes: expected a Uint8Array, ArrayBuffer or Blob, got ${kindOf(value)}`);
}

/** Its size is known before it is read. */
async function readBlob(blob: Blob): Promise<Uint8Array> {
  if (blob.size > IMAGE_BYTES) throw over('imageBytes', IMAGE_BYTES, `the image has ${blob.size} bytes,`);
  return new Uint8Array(await blob.arrayBuffer());
}

function nested(value: NestedNumbers | NestedStrings): Tensor {
  let leaf: unknown = value;
  while (Array.isArray(leaf)) leaf = leaf[0];
  return typeof leaf === 'string' ? nestedTensor(value, 'string') : narrowed(nestedTensor(value, 'float64'));
}

/** float32, which takes half the bytes, if it represents every value exactly. */
function narrowed(tensor: Tensor): Tensor {
  const data = Float32Array.from(tensor.data as Float64Array);
  const exact = data.every((element, i) => Object.is(element, tensor.data[i]));
  return exact ? { dtype: 'float32', shape: tensor.shape, data } : tensor;
}

function tensorValue({ data, shape, dtype }: Dense): Tensor {
  if (dtype !== undefined && dtype !== 'string' && !isNumericDType(dtype)) {
    throw badRequest(`dtype ${JSON.stringify(dtype)} is none of ONNX`);
  }
  assertCount(shape, data.length, TENSOR_ELEMENTS);
  if (ArrayBuffer.isView(data)) {
    // A Uint16Array is float16 only with that dtype, as in the tensors of a result.
    const isHalf = dtype === 'float16' && data instanceof Uint16Array;
    return { dtype: isHalf ? dtype : dtypeOfArray(data), shape, data };
  }
  if (typeof data[0] === 'string') return { dtype: 'string', shape, data: data as readonly string[] };
  const tensor = { ...nestedTensor(data, dtype ?? 'float64'), shape };
  return dtype ? tensor : narrowed(tensor);
}

function dtypeOfArray(data: TypedArray): NumericDType {
  const name = data.constructor.name.replace('Array', '').replace('Big', '').toLowerCase();
  if (isNumericDType(name) && allocate(name, 0).constructor === data.constructor) return name;
  throw badRequest(`a ${data.constructor.name} has no ONNX type`);
}

function sparseOf({ indices: points, values, shape }: Sparse): Value {
  const { data, shape: indicesShape } = nestedTensor(points, 'int32');
  const indices = data as Int32Array;
  return {
    kind: 'sparse',
    shape,
    indices,
    indicesShape,
    values: tensorValue({ data: values, shape: [values.length] }),
  };
}
