/**
 * Converts an outcome to the fields of its Redis hash and back. `value` belongs to the old contract (base64 Arrow,
 * filter text or "NaN") and is all that old clients read; it is float32 only, so other dtypes are stored a second time,
 * exactly.
 */
import { decodeArrowResult, encodeArrowResult } from '../../codecs/arrow/result.ts';
import { decodeBase64, encodeBase64 } from '../../codecs/base64.ts';
import { decodeTensors, encodeTensors } from '../../codecs/safetensors.ts';
import { decodeValue, encodeValue } from '../../codecs/values/value-frame.ts';
import { errorCodeOf, ServingError } from '../../contract/errors.ts';
import { LIMITS } from '../../contract/limits.ts';
import type { Result } from '../../contract/result.ts';
import type { NamedTensor, Outcome } from '../../contract/values.ts';
import type { WorkerValue } from '../../contract/worker-values.ts';
import { type Filter, filterText, needsTensors, outputsText } from '../../pipeline/postprocess.ts';
import { valueText } from '../../pipeline/value-text.ts';

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
}

export function serializeResult(outcome: Outcome, filter: Filter | undefined): StoredFields {
  if (!outcome.ok) return failed(outcome.error);
  const { value } = outcome;
  try {
    if (value !== undefined) {
      if (filter) throw needsTensors(filter);
      return { ...serializeValue(value), status: 'succeeded', error: '', outputs: '' };
    }
    if (filter) {
      return {
        status: 'succeeded',
        value: filterText(outcome.outputs, filter),
        error: '',
        outputs: '',
        exact: '',
      };
    }
    const { outputs } = outcome;
    assertResultSize(outputs);
    const allFloat = outputs.every((output) => output.dtype === 'float32');
    // The contract's Arrow results hold numbers only, so text outputs are stored as the JSON of /predict.
    const hasText = outputs.some((output) => output.dtype === 'string');
    return {
      status: 'succeeded',
      value: hasText ? outputsText(outputs) : encodeBase64(encodeArrowResult(outputs)),
      error: '',
      outputs: JSON.stringify(outputs.map((output) => output.name)),
      exact: allFloat
        ? ''
        : encodeBase64(encodeTensors(new Map(outputs.map((output) => [output.name, output])))),
    };
  } catch (error) {
    return failed(ServingError.from(error));
  }
}

/** bytes as base64, anything else as JSON that anybody reads; and beside it the value itself. */
function serializeValue(value: WorkerValue): Pick<StoredFields, 'value' | 'exact'> {
  const exact = encodeBase64(encodeValue(value));
  const text = value instanceof Uint8Array ? encodeBase64(value) : valueText(value);
  const bytes = exact.length + Buffer.byteLength(text);
  if (bytes <= LIMITS.resultBytes) return { value: text, exact };
  throw new ServingError(
    'too_large',
    `the result has ${bytes} bytes, over the limit of ${LIMITS.resultBytes}; let the worker return less`,
  );
}

/** Refuses a result before it is encoded: four bytes an element, and a third more as base64. */
function assertResultSize(outputs: readonly NamedTensor[]): void {
  const elements = outputs.reduce((sum, { data }) => sum + data.length, 0);
  const bytes = Math.ceil((elements * 4 * 4) / 3);
  if (bytes <= LIMITS.resultBytes) return;
  throw new ServingError(
    'too_large',
    `the result has ${elements} numbers, about ${bytes} bytes, over the limit of ${LIMITS.resultBytes}; keep less of it with postProcessing`,
  );
}

function failed(error: ServingError): StoredFields {
  return { status: 'failed', value: 'NaN', error: JSON.stringify(error), outputs: '', exact: '' };
}

/** Whether a hash is the outcome of this enqueue. A cancellation lists the enqueues that it is the outcome of. */
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
  if (fields['exact']) {
    const named = decodeTensors(decodeBase64(fields['exact']));
    return [...named].map(([name, tensor]) => ({ name, ...tensor }));
  }
  const names = fields['outputs'] ? (JSON.parse(fields['outputs']) as string[]) : [];
  const tensors = decodeArrowResult(decodeBase64(value));
  return tensors.map((tensor, i) => ({ name: names[i] ?? `output${i}`, ...tensor }));
}

function failure(uri: string, text: string | undefined): ServingError {
  const { code, message } = JSON.parse(text || '{}') as { code?: unknown; message?: unknown };
  return new ServingError(
    errorCodeOf(code) ?? 'internal',
    typeof message === 'string' ? message : 'the record failed',
    { uri },
  );
}
