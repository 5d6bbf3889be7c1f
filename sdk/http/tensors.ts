/** Tensors as the service writes them in JSON, and as it reads them. Every element is checked: typed arrays wrap silently. */
import { encodeBase64 } from '../../lib/codecs/encode-base64.ts';
import { quoteName } from '../../lib/codecs/quote.ts';
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import {
  allocate,
  type DType,
  elementCount,
  isNumericDType,
  type Tensor,
} from '../../lib/contract/tensor.ts';
import type { Inputs, NamedTensor, Value } from '../../lib/contract/values.ts';
import { float16Value, storeFor } from '../../lib/pipeline/cast.ts';
import { malformed } from '../fetch.ts';

export interface TensorJson {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** @throws internal for what is no tensor of its dtype and shape */
export function tensorOf(name: string, { dtype, shape, data }: TensorJson): NamedTensor {
  try {
    if (elementCount(shape, LIMITS.tensorElements) !== data.length)
      throw badRequest(`${data.length} elements are not of shape [${shape.join(',')}]`);
    if (dtype === 'string') return { name, dtype, shape, data: data.map(String) };
    if (!isNumericDType(dtype)) throw badRequest(`unknown dtype ${quoteName(dtype)}: update the client`);
    const array = allocate(dtype, data.length);
    const store = storeFor(dtype);
    for (const [i, element] of data.entries()) store(numberOf(element, dtype), array, i);
    return { name, dtype, shape, data: array };
  } catch (error) {
    throw malformed(`output ${quoteName(name)}: ${(error as Error).message}`, error);
  }
}

/** null stands for NaN, which JSON lacks; a whole number beyond 2^53 is a text, which keeps it exact. */
function numberOf(element: unknown, dtype: DType): number | bigint {
  if (typeof element === 'number') return element;
  if (typeof element === 'boolean') return Number(element);
  if (element === null && dtype.startsWith('float')) return Number.NaN;
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
      const { code, message } = ServingError.from(error);
      throw new ServingError(code, `input ${quoteName(name)}: ${message}`, { cause: error });
    }
  });
  return `{${members.join(',')}}`;
}

function valueJson(value: Value): string {
  if (value.kind === 'image') return `{"b64":"${encodeBase64(value.bytes)}"}`;
  if (value.kind === 'tensor') return tensorJson(value.tensor);
  if (value.kind !== 'sparse') throw badRequest('expected numbers, texts, a tensor or an image');
  const { shape, values } = value;
  return `{"shape":${JSON.stringify(shape)},"data":${tensorJson(values)},"indices":${JSON.stringify(points(value))}}`;
}

/** One row per point. One row per dimension wins where both fit, as in a record; over HTTP it is the other way round. */
function points({ shape, indices, indicesShape }: Extract<Value, { kind: 'sparse' }>): number[][] {
  const rank = shape.length;
  const count = indices.length / rank;
  const byDimension = indicesShape[0] === rank;
  return Array.from({ length: count }, (_, i) =>
    Array.from({ length: rank }, (_dim, j) => indices[byDimension ? j * count + i : i * rank + j] as number),
  );
}

function tensorJson({ dtype, shape, data }: Tensor): string {
  let level = Array.from(data as ArrayLike<number | bigint | string>, (element) =>
    elementJson(element, dtype),
  );
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const length = shape[axis] as number;
    const rows = shape.slice(0, axis).reduce((product, dim) => product * dim, 1);
    level = Array.from(
      { length: rows },
      (_, i) => `[${level.slice(i * length, (i + 1) * length).join(',')}]`,
    );
  }
  return level[0] as string;
}

function elementJson(element: number | bigint | string, dtype: DType): string {
  if (dtype === 'string') return JSON.stringify(element);
  if (dtype === 'bool') return element === 0 ? 'false' : 'true';
  const number = dtype === 'float16' ? float16Value(element as number) : element;
  if (typeof number === 'bigint' && !Number.isSafeInteger(Number(number)))
    throw badRequest('JSON has no whole numbers beyond 2^53; use enqueue');
  if (Number.isNaN(number)) return 'null';
  if (number === Infinity || number === -Infinity) throw badRequest('JSON has no infinity; use enqueue');
  return Object.is(number, -0) ? '-0' : String(number);
}
