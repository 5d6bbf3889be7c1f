/** Reads the lines of captures, each of which may be damaged, cut or of something else. */
import {
  type CapturedPlace,
  type CaptureFacts,
  type CaptureForm,
  type CaptureHeader,
  MOST_LINE,
} from '../../contract/capture.ts';
import { asError, badRequest } from '../../contract/errors.ts';
import { isInfinity, jsonValue } from '../../contract/json-numbers.ts';
import { LIMITS } from '../../contract/limits.ts';
import {
  allocate,
  assertCount,
  elementCount,
  isNumericDType,
  type Tensor,
  viewBytes,
} from '../../contract/tensor.ts';
import type { Binding, Inputs, NamedTensor, Value } from '../../contract/values.ts';
import { decodeBase64 } from '../base64.ts';
import { isObject, withBinding } from '../instances.ts';
import { parseExactly } from '../json.ts';

export interface CapturedRecord extends CapturedPlace {
  readonly inputs: Inputs;
  /** Undefined for a record that failed. */
  readonly outputs: readonly NamedTensor[] | undefined;
}

export interface CapturedLine extends CaptureFacts {
  readonly records: readonly CapturedRecord[];
}

/** @throws bad_request for a line that is not the first of a capture of this version */
export function readHeader(line: string): CaptureHeader {
  const header = parsed(line);
  const { capture, job, model, version, settings, runtime, lost } = header;
  if (capture !== 1) throw badRequest('not a capture that this release reads');
  if (model !== undefined && typeof model !== 'string') throw badRequest('"model": expected a text');
  if (typeof job !== 'string' || typeof version !== 'string' || !isObject(settings) || !isObject(runtime))
    throw badRequest('its first line is not that of a capture');
  const { onnxruntime, architecture, features, threads } = runtime;
  return {
    capture,
    job,
    ...(model !== undefined && { model }),
    version,
    settings,
    runtime: {
      onnxruntime: String(onnxruntime),
      architecture: String(architecture),
      features: Array.isArray(features) ? features.map(String) : undefined,
      threads: Number(threads),
    },
    lost: typeof lost === 'number' ? lost : 0,
  };
}

/** @throws bad_request saying what is wrong */
export function readLine(line: string): CapturedLine {
  const { at, source, id, traceId, form, error, records } = parsed(line);
  if (typeof at !== 'number' || typeof id !== 'string' || !Array.isArray(records))
    throw badRequest('expected "at", "id" and "records"');
  return {
    at,
    source: source === 'queue' ? 'queue' : 'request',
    id,
    ...(typeof traceId === 'string' && { traceId }),
    form: formOf(form),
    ...(typeof error === 'string' && { error }),
    records: records.map(recordOf),
  };
}

function parsed(line: string): Record<string, unknown> {
  if (line.length > MOST_LINE)
    throw badRequest(`${line.length} characters are over the limit of ${MOST_LINE}`);
  let value: unknown;
  try {
    value = parseExactly(line);
  } catch (error) {
    throw badRequest(`not JSON: ${asError(error).message}`);
  }
  if (!isObject(value)) throw badRequest('expected a JSON object');
  return value;
}

function formOf(form: unknown): CaptureForm | undefined {
  if (form === undefined || form === 'exact' || form === 'row') return form;
  throw badRequest('"form": expected exact or row');
}

function recordOf(value: unknown): CapturedRecord {
  if (!isObject(value) || !isObject(value['inputs'])) throw badRequest('expected a record with "inputs"');
  const { inputs, order, binding, left, outputs, place } = value;
  const names = Array.isArray(order) ? order.map(String) : Object.keys(inputs);
  const values = names.map((name) => [name, valueOf(inputs[name])] as const);
  const [row, rows] = Array.isArray(place) ? place.map(Number) : [];
  return {
    inputs: withBinding(new Map(values), bindingOf(binding)),
    left: Array.isArray(left) ? left.map(String) : [],
    outputs: Array.isArray(outputs) ? outputs.map(outputOf) : undefined,
    place: row === undefined || rows === undefined ? undefined : { row, rows },
  };
}

function bindingOf(binding: unknown): Binding | undefined {
  if (binding === undefined || binding === 'name' || binding === 'position') return binding;
  throw badRequest('"binding": expected name or position');
}

/** A record has no objects but these. */
function valueOf(value: unknown): Value {
  if (!isObject(value)) return jsonValue(value);
  const { tensor, sparse, image, text } = value;
  if (tensor !== undefined) return { kind: 'tensor', tensor: tensorOf(tensor) };
  if (typeof image === 'string') return { kind: 'image', bytes: decodeBase64(image) };
  if (typeof text === 'string') return { kind: 'text', text };
  if (!isObject(sparse)) throw badRequest('expected a tensor, a sparse tensor, an image or a text');
  const { shape, indices, indicesShape, values } = sparse;
  return {
    kind: 'sparse',
    shape: sizesOf(shape),
    indices: Int32Array.from(sizesOf(indices)),
    indicesShape: sizesOf(indicesShape),
    values: tensorOf(values),
  };
}

function outputOf(value: unknown): NamedTensor {
  const name = isObject(value) ? value['name'] : undefined;
  if (typeof name !== 'string') throw badRequest('an output has no name');
  return { name, ...tensorOf(value) };
}

function sizesOf(value: unknown): number[] {
  if (Array.isArray(value)) {
    const sizes = value.filter((size) => Number.isSafeInteger(size)).map(Number);
    if (sizes.length === value.length) return sizes;
  }
  throw badRequest('expected a list of whole numbers');
}

function tensorOf(value: unknown): Tensor {
  const { dtype, shape: given, data }: { dtype?: unknown; shape?: unknown; data?: unknown } = Object(value);
  const shape = sizesOf(given);
  if (!Array.isArray(data)) throw badRequest('a tensor has no data');
  assertCount(shape, data.length, LIMITS.tensorElements);
  if (dtype === 'string') return { dtype, shape, data: data.map(String) };
  if (typeof dtype !== 'string' || !isNumericDType(dtype)) throw badRequest(`unknown dtype ${String(dtype)}`);
  if (dtype === 'float16') {
    const half = Float16Array.from(data, numberOf);
    return { dtype, shape, data: viewBytes(dtype, new Uint8Array(half.buffer)) };
  }
  const array = allocate(dtype, elementCount(shape));
  for (const [i, one] of data.entries())
    array[i] = dtype === 'int64' || dtype === 'uint64' ? BigInt(one) : numberOf(one);
  return { dtype, shape, data: array };
}

/** NaN and infinities are texts. */
function numberOf(value: unknown): number {
  if (isInfinity(value)) return value < 0n ? -Infinity : Infinity;
  return Number(value);
}
