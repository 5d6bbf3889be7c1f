/**
 * Converts an outcome to the fields that a store keeps of it, and back. `value` belongs to the old contract (base64 Arrow,
 * filter text or "NaN") and is all that old clients read; it is float32 only, so other dtypes are stored a second time,
 * exactly. What is too large for the store has a pointer to S3 in its place.
 */

import { decodeArrowResult, encodeArrowResult } from '../codecs/arrow/result.ts';
import { decodeBase64 } from '../codecs/base64.ts';
import { encodeBase64 } from '../codecs/encode-base64.ts';
import { decodeTensors, encodeTensors } from '../codecs/safetensors.ts';
import { decodeValue, encodeValue } from '../codecs/values/value-frame.ts';
import { type ErrorRecord, errorCodeOf, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import type { LargePointer, Result } from '../contract/result.ts';
import type { NamedTensor, Outcome } from '../contract/values.ts';
import type { Unknown } from '../contract/verification.ts';
import type { WorkerValue } from '../contract/worker-values.ts';
import { type Filter, filterText, needsTensors, outputsText } from '../pipeline/answer/postprocess.ts';
import { valueText } from '../pipeline/answer/value-text.ts';

/** Field values of one result; "" = absent. A cancellation (record-states.ts) has the fields of a failure. */
export interface StoredFields {
  readonly status: 'succeeded' | 'failed';
  /** base64 Arrow, a filter's or a value's text, or NaN. */
  readonly value: string;
  /** JSON {code, message} of a failure. */
  readonly error: string;
  /** JSON list of output names, or "" for a filter's text. */
  readonly outputs: string;
  /** base64: safetensors when an output is not float32; without outputs, the value of a worker. */
  readonly exact: string;
  /** JSON of a LargePointer, where the values are in S3. */
  readonly large?: string;
}

/** Fields as options of a script, without the value, which is an argument of its own; what is empty is absent. */
export function textsOf(fields: Omit<StoredFields, 'status'> & { readonly status: string }) {
  return {
    status: fields.status || undefined,
    error: fields.error || undefined,
    outputs: fields.outputs || undefined,
    exact: fields.exact || undefined,
    large: fields.large || undefined,
  };
}

/** The limit of a result, by the store. */
export type ResultLimit = 'resultBytes' | 'tableResultBytes';

/** The values of an outcome that are over that, for S3. */
export interface LargeContent {
  readonly form: LargePointer['form'];
  readonly bytes: Uint8Array;
  /** As in StoredFields. */
  readonly outputs: string;
}

type Serialized = { readonly fields: StoredFields } | { readonly large: LargeContent };

/** Serializes an outcome where there is no S3: one that is too large for the store fails. */
export function serializeResult(
  outcome: Outcome,
  filter: Filter | undefined,
  limit: ResultLimit = 'resultBytes',
): StoredFields {
  const made = serializeOutcome(outcome, filter, limit);
  if ('fields' in made) return made.fields;
  return failedFields(tooLarge(made.large.bytes.byteLength, limit));
}

/** Never throws. @param limit of a result in the store */
export function serializeOutcome(
  outcome: Outcome,
  filter: Filter | undefined,
  limit: ResultLimit = 'resultBytes',
): Serialized {
  if (!outcome.ok) return { fields: failedFields(outcome.error) };
  const { value, outputs } = outcome;
  const most = LIMITS[limit];
  try {
    if (value !== undefined) {
      if (filter) throw needsTensors(filter);
      return serializeValue(value, most);
    }
    return filter ? serializeText(filterText(outputs, filter), most) : serializeOutputs(outputs, most);
  } catch (error) {
    return { fields: failedFields(ServingError.from(error)) };
  }
}

function serializeText(text: string, most: number): Serialized {
  if (Buffer.byteLength(text) <= most) return succeeded({ value: text });
  return large({ form: 'text', bytes: Buffer.from(text), outputs: '' });
}

function serializeOutputs(outputs: readonly NamedTensor[], most: number): Serialized {
  const names = JSON.stringify(outputs.map((output) => output.name));
  const toExact = () => encodeTensors(new Map(outputs.map((output) => [output.name, output])));
  // Refused before it is encoded. A text has a byte or more.
  const bytes = outputs.reduce(
    (sum, { data }) => sum + ('byteLength' in data ? data.byteLength : data.length),
    0,
  );
  if (bytes > LIMITS.largeResultBytes) throw tooLarge(bytes, 'largeResultBytes');
  const elements = outputs.reduce((sum, { data }) => sum + data.length, 0);
  // In Arrow, an element has eight bytes, and a third more as base64.
  if (elements * 8 <= most) {
    const allFloat = outputs.every((output) => output.dtype === 'float32');
    // The contract's Arrow results hold numbers only, so text outputs are stored as the JSON of /predict.
    const hasText = outputs.some((output) => output.dtype === 'string');
    const value = hasText ? outputsText(outputs) : encodeBase64(encodeArrowResult(outputs));
    const exact = allFloat ? '' : encodeBase64(toExact());
    if (Buffer.byteLength(value) + exact.length <= most) return succeeded({ value, outputs: names, exact });
  }
  return large({ form: 'tensors', bytes: toExact(), outputs: names });
}

/** bytes as base64, anything else as JSON that anybody reads; and beside it the value itself. */
function serializeValue(value: WorkerValue, most: number): Serialized {
  const isBytes = value instanceof Uint8Array;
  const frame = encodeValue(value);
  if (frame.byteLength <= most) {
    const exact = encodeBase64(frame);
    const text = isBytes ? encodeBase64(value) : valueText(value);
    if (exact.length + Buffer.byteLength(text) <= most) return succeeded({ value: text, exact });
  }
  return large({ form: isBytes ? 'bytes' : 'value', bytes: isBytes ? value : frame, outputs: '' });
}

function succeeded(fields: Partial<StoredFields>): Serialized {
  return { fields: { ...NO_FIELDS, ...fields } };
}

function large(content: LargeContent): Serialized {
  const { byteLength } = content.bytes;
  if (byteLength > LIMITS.largeResultBytes) throw tooLarge(byteLength, 'largeResultBytes');
  return { large: content };
}

function tooLarge(bytes: number, limit: ResultLimit | 'largeResultBytes'): ServingError {
  const { message } = overLimit(limit, `the result has ${bytes} bytes or more, which are`);
  return new ServingError(
    'too_large',
    `${message}; keep less of it with postProcessing, or let the worker return less`,
  );
}

const NO_FIELDS: StoredFields = { status: 'succeeded', value: '', error: '', outputs: '', exact: '' };

export function failedFields(error: ServingError): StoredFields {
  return { ...NO_FIELDS, status: 'failed', value: 'NaN', error: JSON.stringify(error) };
}

/** True if a hash is the outcome of this enqueue. A cancellation lists the enqueues to which it applies. */
export function isOutcomeOf(fields: Readonly<Record<string, string>>, identity: string): boolean {
  if (fields['status'] !== 'cancelled') return fields['identity'] === identity;
  return (fields['cancelled'] ?? '').split(' ').includes(identity);
}

/**
 * @returns undefined when there is no such hash
 * @throws the record's own error (with its uri) when it failed; internal when the hash cannot be read
 */
export function parseResult(uri: string, fields: Readonly<Record<string, string>>): Result | undefined {
  const { status, value, error, model = '', finishedAt, identity = '' } = fields;
  if (status === undefined && value === undefined) return undefined;
  // Analytics Zoo Cluster Serving stored a value without a status.
  if (status === 'failed' || status === 'cancelled' || (status === undefined && value === 'NaN'))
    throw failure(uri, error);
  if (value === undefined) throw new ServingError('internal', 'the stored result has no value', { uri });
  if (fields['large']) {
    const pointer = readPointer(fields['large']);
    const { finishedAt: at } = pointer;
    return { uri, outputs: [], filtered: undefined, model, finishedAt: at, identity, large: pointer };
  }
  const isText = status === undefined ? value.startsWith('[') : !fields['outputs'];
  // A filter's text has no exact form.
  const isValue = isText && Boolean(fields['exact']);
  return {
    uri,
    outputs: isText ? [] : readOutputs(fields, value),
    filtered: isText && !isValue ? JSON.parse(value) : undefined,
    ...(isValue ? { value: decodeValue(decodeBase64(fields['exact'] ?? '')) } : {}),
    model,
    finishedAt: Number(finishedAt ?? 0),
    identity,
  };
}

function readOutputs(fields: Readonly<Record<string, string>>, value: string): NamedTensor[] {
  if (fields['exact']) return namedTensors(decodeBase64(fields['exact']));
  const names: readonly string[] = JSON.parse(fields['outputs'] || '[]');
  const tensors = decodeArrowResult(decodeBase64(value));
  return tensors.map((tensor, i) => ({ name: names[i] ?? `output${i}`, ...tensor }));
}

/** Who can write to the store must not name other objects than results. @throws internal */
function readPointer(text: string): LargePointer {
  const pointer: LargePointer = JSON.parse(text);
  if (/^results\/[\w-]{1,80}\/[0-9a-f-]{36}$/.test(pointer.key)) return pointer;
  throw new ServingError('internal', 'the pointer of the stored result names something else than a result');
}

/** The result with what the object of its pointer holds. @throws bad_request, ProtocolError when it is something else */
export function withContent(result: Result, form: LargePointer['form'], bytes: Uint8Array): Result {
  const { large: _, ...whole } = result;
  if (form === 'bytes') return { ...whole, value: bytes };
  if (form === 'value') return { ...whole, value: decodeValue(bytes) };
  if (form === 'text') return { ...whole, filtered: JSON.parse(Buffer.from(bytes).toString()) };
  return { ...whole, outputs: namedTensors(bytes) };
}

function namedTensors(bytes: Uint8Array): NamedTensor[] {
  return [...decodeTensors(bytes)].map(([name, tensor]) => ({ name, ...tensor }));
}

function failure(uri: string, text: string | undefined): ServingError {
  const { code, message }: Unknown<ErrorRecord> = JSON.parse(text || '{}');
  return new ServingError(
    errorCodeOf(code) ?? 'internal',
    typeof message === 'string' ? message : 'the record failed',
    { uri },
  );
}
