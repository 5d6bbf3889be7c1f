/** Tensors as the service writes them in JSON, and as it reads them. Every element is checked: typed arrays wrap silently. */
import { encodeBase64 } from '../../lib/codecs/encode-base64.ts';
import { quoteName } from '../../lib/codecs/quote.ts';
import { TENSOR_ELEMENTS } from '../../lib/contract/client-limits.ts';
import { asError, badRequest } from '../../lib/contract/errors.ts';
import { allocate, assertCount, type DType, isNumericDType, type Tensor } from '../../lib/contract/tensor.ts';
import type { Inputs, NamedTensor, Value } from '../../lib/contract/values.ts';
import { float16Value, storeFor } from '../../lib/pipeline/bind/cast.ts';
import { malformed } from '../fetch.ts';
import { ofInput } from '../inputs.ts';

export interface TensorJson {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** @throws internal if it does not match its dtype and shape */
export function tensorOf(name: string, { dtype, shape, data }: TensorJson): NamedTensor {
  try {
    assertCount(shape, data.length, TENSOR_ELEMENTS);
    if (dtype === 'string') return { name, dtype, shape, data: data.map(String) };
    if (!isNumericDType(dtype)) throw badRequest(`unknown dtype ${quoteName(dtype)}: update the client`);
    const array = allocate(dtype, data.length);
    const store = storeFor(dtype);
    for (const [i, element] of data.entries()) store(numberOf(element, dtype), array, i);
    return { name, dtype, shape, data: array };
  } catch (error) {
    throw malformed(`output ${quoteName(name)}: ${asError(error).message}`, error);
  }
}

/** null stands for NaN, which JSON lacks; a whole number beyond 2^53 is a text, which keeps it exact. */
function numberOf(element: unknown, dtype: DType): number | bigint {
  if (typeof element === 'number' || typeof element === 'boolean') return Number(element);
  if (element === null && dtype.startsWith('float')) return NaN;
  if (dtype.endsWith('int64') && typeof element === 'string' && /^-?\d{1,20}$/.test(element))
    return BigInt(element);
  throw badRequest(`an element is no ${dtype}`);
}

/**
 * The inputs of one record as the JSON text of an instance of POST /predict.
 * @throws bad_request for what JSON cannot hold
 */
export function instanceJson(inputs: Inputs): string {
  const members = Array.from(inputs, ([name, value]) => {
    try {
      return `${JSON.stringify(name)}:${valueJson(value)}`;
    } catch (error) {
      throw ofInput(name, error);
    }
  });
  return `{${members.join(',')}}`;
}

function valueJson(value: Value): string {
  if (value.kind === 'image') return `{"b64":"${encodeBase64(value.bytes)}"}`;
  if (value.kind === 'tensor') return tensorJson(value.tensor);
  if (value.kind !== 'sparse') throw badRequest('expected numbers, texts, a tensor or an image');
  const { shape, indices, indicesShape, values } = value;
  const rank = shape.length;
  const count = indices.length / rank;
  // One row per point. One row per dimension wins where both fit, as in a record; over HTTP it is the other way round.
  const indexAt = (at: number) =>
    indicesShape[0] === rank ? (at % rank) * count + Math.floor(at / rank) : at;
  const points = nestedJson([count, rank], (at) => String(indices[indexAt(at)]));
  return `{"shape":${JSON.stringify(shape)},"data":${tensorJson(values)},"indices":${points}}`;
}

function tensorJson({ dtype, shape, data }: Tensor): string {
  return nestedJson(shape, (at) => elementJson(data[at] as number | bigint | string, dtype));
}

/** The elements as nested arrays, in row-major order. */
function nestedJson(shape: readonly number[], elementAt: (at: number) => string, axis = 0, at = 0): string {
  const length = shape[axis];
  if (length === undefined) return elementAt(at);
  const elements = Array.from({ length }, (_, i) => nestedJson(shape, elementAt, axis + 1, at * length + i));
  return `[${elements.join(',')}]`;
}

function elementJson(element: number | bigint | string, dtype: DType): string {
  if (dtype === 'string') return JSON.stringify(element);
  if (dtype === 'bool') return element === 0 ? 'false' : 'true';
  const number = dtype === 'float16' ? float16Value(Number(element)) : element;
  if (typeof number === 'bigint' && !Number.isSafeInteger(Number(number)))
    throw badRequest('JSON has no whole numbers beyond 2^53; use enqueue');
  if (Number.isNaN(number)) return 'null';
  if (number === Infinity || number === -Infinity) throw badRequest('JSON has no infinity; use enqueue');
  return Object.is(number, -0) ? '-0' : String(number);
}
