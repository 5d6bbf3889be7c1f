/**
 * Converts the values passed to `enqueue` to a record's inputs. As in the Python client, a bare string is an image
 * path and a list of strings is text. Plain numbers have no dtype: they are sent as float32 if that is exact, else as
 * float64, and the model's input decides.
 */
import { kindOf } from '../lib/codecs/quote.ts';
import { badRequest, ServingError } from '../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../lib/contract/limits.ts';
import {
  allocate,
  type DType,
  elementCount,
  isNumericDType,
  type Tensor,
  type TypedArray,
} from '../lib/contract/tensor.ts';
import type { Inputs, Value } from '../lib/contract/values.ts';
import { nestedTensor } from '../lib/pipeline/nested.ts';

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
  | {
      readonly data: TypedArray | readonly number[] | readonly string[];
      readonly shape: readonly number[];
      readonly dtype?: DType;
    }
  /** A sparse tensor (COO): indices ndim x nnz or nnz x ndim, counted from 0. */
  | {
      readonly indices: readonly (readonly number[])[];
      readonly values: TypedArray | readonly number[];
      readonly shape: readonly number[];
    };

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
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw badRequest(`inputs: expected an object of inputs by name, got ${kindOf(values)}`);
  }
  const entries = Object.entries(values);
  if (entries.length === 0) throw badRequest('a record needs at least one input');
  const inputs = new Map<string, Value>();
  for (const [name, value] of entries) {
    try {
      inputs.set(name, await toValue(value, readFile));
    } catch (error) {
      const { code, message } = ServingError.from(error);
      const known = code === 'internal' ? 'bad_request' : code;
      throw new ServingError(known, `input ${JSON.stringify(name)}: ${message}`, { cause: error });
    }
  }
  return inputs;
}

async function toValue(value: InputValue, readFile: ReadFile): Promise<Value> {
  if (typeof value === 'string') return { kind: 'image', bytes: await readFile(value) };
  if (value instanceof Blob) return { kind: 'image', bytes: await readBlob(value) };
  if (typeof Buffer === 'function' && Buffer.isBuffer(value)) {
    throw badRequest('got a Buffer; write { bytes } for an image, or new Uint8Array(...) for numbers');
  }
  if (!['object', 'number', 'boolean'].includes(typeof value)) {
    throw badRequest(`expected numbers, texts, a tensor or an image, got ${kindOf(value)}`);
  }
  if (ArrayBuffer.isView(value)) return tensorValue({ data: value, shape: [value.length] });
  if (value === null) return { kind: 'tensor', tensor: nested(Number.NaN) };
  if (typeof value !== 'object' || Array.isArray(value)) return { kind: 'tensor', tensor: nested(value) };
  if ('path' in value) return { kind: 'image', bytes: await readFile(value.path) };
  if ('b64' in value) return { kind: 'image', bytes: decoded(value.b64) };
  if ('bytes' in value) return { kind: 'image', bytes: await imageBytes(value.bytes) };
  if ('indices' in value && 'values' in value) return sparseValue(value);
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
    throw badRequest('b64: the text is no base64', { cause: error });
  }
}

async function imageBytes(value: Uint8Array | ArrayBuffer | Blob): Promise<Uint8Array> {
  if (value instanceof Blob) return readBlob(value);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (value instanceof Uint8Array) return value;
  throw badRequest(`bytes: expected a Uint8Array, an ArrayBuffer or a Blob, got ${kindOf(value)}`);
}

/** Its size is known before it is read. */
async function readBlob(blob: Blob): Promise<Uint8Array> {
  if (blob.size > LIMITS.imageBytes) throw overLimit('imageBytes', `the image has ${blob.size} bytes,`);
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

function tensorValue(value: {
  data: TypedArray | readonly number[] | readonly string[];
  shape: readonly number[];
  dtype?: DType;
}): Value {
  const { data, shape, dtype } = value;
  if (dtype !== undefined && dtype !== 'string' && !isNumericDType(dtype)) {
    throw badRequest(`dtype ${JSON.stringify(dtype)} is none of ONNX`);
  }
  const count = elementCount(shape, LIMITS.tensorElements);
  if (data.length !== count) {
    throw badRequest(`${data.length} elements are not of shape [${shape.join(',')}]`);
  }
  if (ArrayBuffer.isView(data)) {
    // A Uint16Array is float16 only with that dtype, as in the tensors of a result.
    const isHalf = dtype === 'float16' && data instanceof Uint16Array;
    const tensor = { dtype: isHalf ? dtype : dtypeOfArray(data), shape, data };
    return { kind: 'tensor', tensor };
  }
  if (typeof data[0] === 'string')
    return { kind: 'tensor', tensor: { dtype: 'string', shape, data: data as readonly string[] } };
  const flat = nestedTensor(data, dtype ?? 'float64');
  const tensor = { ...flat, shape };
  return { kind: 'tensor', tensor: dtype ? tensor : narrowed(tensor) };
}

function dtypeOfArray(data: TypedArray): DType {
  const name = data.constructor.name.replace('Array', '').replace('Big', '').toLowerCase();
  if (isNumericDType(name) && allocate(name, 0).constructor === data.constructor) return name;
  throw badRequest(`a ${data.constructor.name} has no ONNX type`);
}

function sparseValue(value: {
  indices: readonly (readonly number[])[];
  values: TypedArray | readonly number[];
  shape: readonly number[];
}): Value {
  const indices = nestedTensor(value.indices, 'int32');
  const values = tensorValue({ data: value.values, shape: [value.values.length] });
  if (values.kind !== 'tensor') throw badRequest('sparse values: expected numbers');
  return {
    kind: 'sparse',
    shape: value.shape,
    indices: indices.data as Int32Array,
    indicesShape: indices.shape,
    values: values.tensor,
  };
}
