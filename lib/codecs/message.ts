/**
 * Reads and writes the body of an SQS message: JSON {uri, data, serde}, where `serde` names the codec of `data` (CODECS).
 * An unreadable record with a uri still gets an outcome; one without a uri cannot.
 */

import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { assertUri } from '../contract/names.ts';
import { elementAt, present } from '../contract/present.ts';
import type { Tensor } from '../contract/tensor.ts';
import type { Inputs, Value } from '../contract/values.ts';
import { decodeArrowRecord } from './arrow/record.ts';
import { type Allocate, decodeBase64 } from './base64.ts';
import { encodeBase64 } from './encode-base64.ts';
import {
  BY_POSITION,
  decodeInstances,
  instanceText,
  isObject,
  longName,
  type Parse,
  withBinding,
} from './instances.ts';
import { parseText } from './json.ts';
import { kindOf, quoteName } from './quote.ts';
import { dimensionsOf, encodeTensors, readTensorFile } from './safetensors.ts';

/** The fields of one record on the wire. */
interface WireRecord {
  readonly uri: string;
  readonly data: string;
  readonly serde?: string;
}

interface DecodedRecord {
  readonly uri: string;
  readonly inputs: Inputs | ServingError;
}

/** From this length on, finding `data` is faster than letting JSON.parse read it. */
const LARGE_CHARACTERS = 2_048;
const DATA = '"data":"';
const DATA_SPACED = '"data": "';
const MARK = '\u0001';

/**
 * Parses a record without its `data`, which takes 8 us instead of 90 for 148 kB. The base64 decoder refuses what JSON
 * would have refused: a line feed, an escape. Returns undefined when what was cut out was not the record's own
 * `data`.
 */
function parseAround(body: string): Record<string, unknown> | undefined {
  const plain = body.indexOf(DATA);
  const at = plain === -1 ? body.indexOf(DATA_SPACED) : plain;
  if (at === -1) return undefined;
  const start = at + (plain === -1 ? DATA_SPACED.length : DATA.length);
  const end = body.indexOf('"', start);
  if (end === -1) return undefined;
  const data = body.slice(start, end);
  if (data.includes('\\')) return undefined;
  try {
    const record: unknown = parseText(`${body.slice(0, start)}\\u0001${body.slice(end)}`);
    return isObject(record) && record['data'] === MARK ? { ...record, data } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param allocate memory for the record's bytes, of which its tensors are views; default fresh memory
 * @param parse reads the JSON of a record; default parseText
 * @throws bad_request when the body has no readable uri to store a failure under
 */
export function decodeMessage(body: string, allocate?: Allocate, parse?: Parse): DecodedRecord {
  let record: unknown;
  try {
    record = body.length > LARGE_CHARACTERS ? (parseAround(body) ?? parseText(body)) : JSON.parse(body);
  } catch (error) {
    if (error instanceof ServingError) throw new ServingError(error.code, `the message is ${error.message}`);
    // Only the log gets this error, and V8 quotes a part of the record: `Unexpected token 'E', "Erika Mu"... is not`.
    const fault = asError(error).message.replace(/, (\.\.\.)?".*$/s, '');
    throw badRequest(`the message is not JSON: ${fault}`);
  }
  if (!isObject(record)) throw badRequest(`the message is ${kindOf(record)}, expected {uri, data}`);
  const uri = assertUri(record['uri']);
  try {
    return { uri, inputs: decodeData(wireRecord(record), allocate, parse) };
  } catch (error) {
    return { uri, inputs: ServingError.from(error) };
  }
}

/**
 * A wire record from a JSON object, its fields checked but its data not yet read.
 * @throws bad_request
 */
export function wireRecord(record: Readonly<Record<string, unknown>>): WireRecord {
  const { data, serde = 'arrow' } = record;
  const uri = assertUri(record['uri']);
  if (typeof data !== 'string') {
    const hint = 'pointer' in record ? '; its "pointer" names no payload of this job' : '';
    throw badRequest(`data: expected a text, got ${kindOf(data)}${hint}`);
  }
  if (typeof serde !== 'string') throw badRequest(`serde: expected a text, got ${kindOf(serde)}`);
  return { uri, data, serde };
}

/** Reads the `data` of a record. @throws bad_request, too_large */
type Decode = (data: string, allocate?: Allocate, parse?: Parse) => Inputs;

/** By `serde`. Binary codecs travel as base64. */
const CODECS: Readonly<Record<string, Decode>> = {
  /** An Arrow stream, as the Python and Scala clients send it. The default. */
  arrow: (data, allocate) => withBinding(decodeArrowRecord(decodeBase64(data, allocate)), 'position'),
  /** JSON text: {"instances": [{...}]}. */
  stream: (data, _, parse) => onlyInstance(data, parse),
  /** As the SDK sends it: every dtype, without conversion. */
  safetensors: (data, allocate) => inputsFromFile(decodeBase64(data, allocate)),
};

/**
 * @param allocate memory for the bytes, of which the tensors are views; default fresh memory
 * @throws bad_request, too_large
 */
export function decodeData(
  { data, serde = 'arrow' }: WireRecord,
  allocate?: Allocate,
  parse?: Parse,
): Inputs {
  if (Object.hasOwn(CODECS, serde)) return present(CODECS[serde], `codec ${serde}`)(data, allocate, parse);
  const names = Object.keys(CODECS).map((name) => JSON.stringify(name));
  const expected = `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
  throw badRequest(`serde ${quoteName(serde)}: expected ${expected}`);
}

function onlyInstance(data: string, parse?: Parse): Inputs {
  // Old clients name inputs as they like.
  const instances = decodeInstances(data, parse, 'position');
  if (instances.length === 1) return elementAt(instances, 0, 'instances');
  throw badRequest(`a record holds one instance, got ${instances.length}`);
}

const IMAGE = 'image';
const SPARSE = 'sparse';
const INDICES = 'indices';

function inputsFromFile(bytes: Uint8Array): Inputs {
  const { tensors, metadata } = readTensorFile(bytes);
  const inputs = new Map<string, Value>();
  for (const [name, tensor] of tensors) {
    const kind = metadata[`kind:${name}`] ?? '';
    if (kind === INDICES) continue;
    if (name.length > LIMITS.inputNameLength) throw longName(name);
    if (kind === IMAGE) inputs.set(name, { kind: 'image', bytes: bytesOf(tensor) });
    else if (kind.startsWith(SPARSE)) inputs.set(name, sparseFrom(name, tensor, tensors, kind));
    else inputs.set(name, { kind: 'tensor', tensor });
  }
  if (inputs.size === 0) throw badRequest('expected at least one input, got none');
  return withBinding(inputs, metadata[BY_POSITION] === 'true' ? 'position' : undefined);
}

function bytesOf(tensor: Tensor): Uint8Array {
  const { data } = tensor;
  if (tensor.dtype !== 'uint8' || !(data instanceof Uint8Array))
    throw badRequest(`an image: expected uint8, got ${tensor.dtype}`);
  return data;
}

function sparseFrom(name: string, values: Tensor, tensors: ReadonlyMap<string, Tensor>, kind: string): Value {
  const indices = tensors.get(`${name}/indices`);
  if (indices?.dtype !== 'int32' || !(indices.data instanceof Int32Array)) {
    const got = indices?.dtype ?? 'nothing';
    throw badRequest(`sparse ${quoteName(name)}: expected int32 "…/indices", got ${got}`);
  }
  const dims = kind.slice(SPARSE.length + 1);
  const shape = dimensionsOf(dims);
  if (shape === undefined) {
    throw badRequest(
      `sparse ${quoteName(name)}: expected up to ${LIMITS.tensorRank} dimensions as in "2,3", got ${quoteName(dims)}`,
    );
  }
  return { kind: 'sparse', shape, indices: indices.data, indicesShape: indices.shape, values };
}

/**
 * The message of a record, of any size; the sender decides how it is sent.
 * @throws bad_request for an invalid uri
 */
export function encodeMessage(uri: string, inputs: Inputs): string {
  const only = [...inputs.values()][0];
  if (only?.kind !== 'json') return encodeBinaryMessage(uri, inputs);
  return JSON.stringify({ uri: assertUri(uri), data: instanceText(inputs), serde: 'stream' });
}

/** `encodeMessage` of inputs that are not JSON. */
export function encodeBinaryMessage(uri: string, inputs: Inputs): string {
  return JSON.stringify(toWire(assertUri(uri), inputs));
}

function toWire(uri: string, inputs: Inputs): WireRecord {
  const tensors = new Map<string, Tensor>();
  const kinds: Record<string, string> = {};
  for (const [name, value] of inputs) addValue(name, value, tensors, kinds);
  return { uri, data: encodeBase64(encodeTensors(tensors, kinds)), serde: 'safetensors' };
}

function addValue(
  name: string,
  value: Value,
  tensors: Map<string, Tensor>,
  kinds: Record<string, string>,
): void {
  switch (value.kind) {
    case 'tensor':
      tensors.set(name, value.tensor);
      return;
    case 'image':
      tensors.set(name, { dtype: 'uint8', shape: [value.bytes.byteLength], data: value.bytes });
      kinds[`kind:${name}`] = IMAGE;
      return;
    case 'sparse':
      tensors.set(name, value.values);
      tensors.set(`${name}/indices`, { dtype: 'int32', shape: value.indicesShape, data: value.indices });
      kinds[`kind:${name}`] = `${SPARSE}:${value.shape.join(',')}`;
      kinds[`kind:${name}/indices`] = INDICES;
      return;
    case 'text':
      tensors.set(name, { dtype: 'string', shape: [1], data: [value.text] });
      return;
    case 'json':
      throw badRequest(`input ${quoteName(name)}: JSON and binary inputs do not mix`);
  }
}
